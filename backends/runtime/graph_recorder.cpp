#include "backends/runtime/graph_recorder.h"

#include <utility>

namespace framefuse {
namespace {

std::unique_ptr<GraphRecorder>& Slot() {
  static auto* const slot = new std::unique_ptr<GraphRecorder>;
  return *slot;
}

thread_local bool is_recording = false;

}  // namespace

GraphRecorder* TheGraphRecorder() { return Slot().get(); }
void SetGraphRecorder(std::unique_ptr<GraphRecorder> recorder) { Slot() = std::move(recorder); }

bool IsRecording() { return is_recording; }
RecordingScope::RecordingScope() { is_recording = true; }
RecordingScope::~RecordingScope() { is_recording = false; }

}  // namespace framefuse
