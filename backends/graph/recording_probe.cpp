#include "backends/graph/recording_probe.h"

#include <utility>

namespace framefuse {
namespace {

std::function<bool()>& Slot() {
  static auto* const slot = new std::function<bool()>;
  return *slot;
}

}  // namespace

bool IsStreamRecorded() { return Slot() && Slot()(); }
void SetRecordingProbe(std::function<bool()> probe) { Slot() = std::move(probe); }

}  // namespace framefuse
