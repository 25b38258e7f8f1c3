// Errors that torch raises while it runs on fakes. An operator checks fakes as it checks tensors, so its errors are the
// program's own; one about the fakes themselves is a graph break. What only real tensors can tell apart must not steer
// the program: it breaks where a handler stands around it, and is found out when the frame runs as Python otherwise.

#include "symbolic/journals/native_boundary.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "frame_eval/bytecode/decode.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/tracing/error_texts.h"

namespace framefuse {
namespace {

// The first argument of the current error, where it is a text; runs no code of the program's.
std::string CurrentErrorText() {
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  std::string text;
  if (error && PyExceptionInstance_Check(error.get())) {
    PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(error.get())->args;
    if (PyTuple_GET_SIZE(args) > 0) text = Utf8(PyTuple_GET_ITEM(args, 0));
  }
  frame_ops::RestoreRaised(thread, std::move(error));
  return text;
}

}  // namespace

GraphBreakKind BreakKindOf(const tracing::TensorBreak& b) {
  switch (b.kind) {
    case tracing::BreakKind::kDataDependent:
      return GraphBreakKind::kTensorToPython;
    case tracing::BreakKind::kRealTensor:
    case tracing::BreakKind::kUnsupportedTensor:
    case tracing::BreakKind::kStaleTensor:
      return GraphBreakKind::kUnsupportedTensor;
    case tracing::BreakKind::kMetadataMutation:
    case tracing::BreakKind::kMutation:
      return GraphBreakKind::kTensorMutation;
    case tracing::BreakKind::kSetting:
      return GraphBreakKind::kGlobalTorchState;
    case tracing::BreakKind::kWarning:
      return GraphBreakKind::kSideEffectCall;
    case tracing::BreakKind::kHiddenState:
    case tracing::BreakKind::kNoShapeRule:
      return GraphBreakKind::kUnsupportedOperator;
  }
  return GraphBreakKind::kUnsupportedOperator;
}

bool NativeBoundary::Check() {
  if (breaks_.unwinding()) return BreakController::SetUnwindError(), false;  // C code may have dropped it
  if (const std::optional<tracing::TensorBreak>& pending = tracer_.PendingBreak()) {
    return breaks_.BreakFalse(
        BreakKindOf(*pending),
        absl::StrCat(pending->context, pending->explanation.empty() ? "" : ": ", pending->explanation));
  }
  if (options_.refused_node >= 0 && tracer_.NodeCount() > options_.refused_node) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedOperator, options_.why_refused);
  }
  if (PyErr_Occurred() == nullptr) [[likely]] {
    return true;
  }
  if (numpy_errors_.Raised()) {
    return breaks_.BreakFalse(GraphBreakKind::kSideEffectCall, "numpy's warning of a floating-point error");
  }
  if (IsErrorAboutFakes()) {
    return breaks_.BreakFalse(GraphBreakKind::kTensorToPython, "C code reads its memory");
  }
  return !IsErrorAboutSymbols();
}

// The attempt is made anew without symbolic sizes then.
bool NativeBoundary::IsErrorAboutSymbols() {
  if (!tracer_.sizes().any()) return false;
  if (PyErr_ExceptionMatches(PyExc_RuntimeError) == 0 && PyErr_ExceptionMatches(PyExc_AttributeError) == 0)
    return false;
  const std::string text = CurrentErrorText();
  if (!tracing::IsAboutSymbols(text)) return false;
  const UserLocation& here = frames_.Here();
  FF_LOG(kDynamic) << "no size is symbolic, as "
                   << (here.code ? absl::StrCat(FileNameOf(here.code.get()), ":", here.line) : "torch")
                   << " needs plain numbers: " << text.substr(0, text.find('\n'));
  return !breaks_.NeedStaticSizes();
}

Value NativeBoundary::Wrap(Ref object) {
  if (!Check()) return Value();
  return Value{std::move(object), kNoSource};
}

bool NativeBoundary::IsErrorAboutFakes() const {
  return PyErr_Occurred() == PyExc_RuntimeError && tracing::IsAboutFakes(CurrentErrorText());
}

bool NativeBoundary::IsErrorHandled() const {
  return std::any_of(frames_.all().begin(), frames_.all().end(), [](const Activation* act) {
    const Bytecode* bytecode = BytecodeOf(frame_ops::Code(act->frame));
    return bytecode == nullptr || bytecode->FindHandler(act->instruction) != nullptr;
  });
}

bool NativeBoundary::ConfirmTorchError(BorrowedRef callable) {
  if (PyErr_ExceptionMatches(PyExc_RuntimeError) == 0) return true;  // of types and of Python's own values
  const std::string text = CurrentErrorText();
  if (tracer_.IsErrorOfOperator(text)) return true;
  const std::string context =
      absl::StrCat(DescribeCallable(callable), " raised \"", text.substr(0, text.find('\n')), "\"");
  if (IsErrorHandled()) {
    return breaks_.BreakFalse(GraphBreakKind::kUnconfirmedError, context);
  }
  breaks_.NoteUnconfirmed(context);
  return true;
}

}  // namespace framefuse
