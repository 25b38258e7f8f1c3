#include "symbolic/tracing/recording_errors.h"

#include <utility>

#include "symbolic/tracing/error_texts.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

void RecordingErrors::SetBreak(TensorBreak b) {
  if (!pending_break_) pending_break_ = std::move(b);
}

void RecordingErrors::Note(const c10::OperatorHandle& handle, const c10::Error& error) {
  last_ = error.what_without_backtrace();
  if (!IsAboutFakes(last_)) return;
  SetBreak({BreakKind::kDataDependent, TraitsOf(handle).op->name(),
            "the operator reads its arguments' values where they are not known yet", ""});
}

}  // namespace framefuse::tracing
