#include "symbolic/tracing/shapes/unbacked.h"

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

bool IsUnbacked(const c10::SymInt& size) {
  Recorder* recorder = size.is_symbolic() ? Recorder::Current() : nullptr;
  return recorder != nullptr && recorder->sizes().Table().LastUnbacked(recorder->ToDim(size)) >= 0;
}

bool IsUnbackedOfBackward(const c10::SymInt& size) {
  return IsUnbacked(size) && Recorder::Current()->phase() == ir::Phase::kBackward;
}

}  // namespace framefuse::tracing
