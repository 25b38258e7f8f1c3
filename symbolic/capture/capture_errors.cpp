// Errors that torch raises while it runs on fakes. An operator checks fakes as it checks tensors, so its errors are the
// program's own; one about the fakes themselves is a graph break. What only real tensors can tell apart must not steer
// the program: it breaks where a handler stands around it, and is found out when the frame runs as Python otherwise.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "frame_eval/bytecode/decode.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/descriptors.h"

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

void SetMissingAttribute(BorrowedRef object, BorrowedRef name) {
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  if (error && PyErr_GivenExceptionMatches(error, PyExc_AttributeError) != 0 &&
      (PyObject_SetAttrString(error, "name", name) != 0 || PyObject_SetAttrString(error, "obj", object) != 0)) {
    PyErr_Clear();
  }
  frame_ops::RestoreRaised(thread, std::move(error));
}

Value AttributeError(BorrowedRef object, BorrowedRef name) {
  const Ref ignored = Ref::Steal(PyObject_GenericGetAttr(object, name));
  if (ignored) {  // shadowed by a deletion in the overlay
    PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(object.get())->tp_name,
                 name.get());
    SetMissingAttribute(object, name);
  }
  return Value();
}

bool Capture::IsErrorAboutFakes() const {
  return PyErr_Occurred() == PyExc_RuntimeError && tracing::Tracer::IsAboutFakes(CurrentErrorText());
}

bool Capture::IsErrorHandled() const {
  return std::any_of(frames_.begin(), frames_.end(), [](const Activation* act) {
    const Bytecode* bytecode = BytecodeOf(frame_ops::Code(act->frame));
    return bytecode == nullptr || bytecode->FindHandler(act->instruction) != nullptr;
  });
}

bool Capture::ConfirmTorchError(BorrowedRef callable) {
  if (PyErr_ExceptionMatches(PyExc_RuntimeError) == 0) return true;  // of types and of Python's own values
  const std::string text = CurrentErrorText();
  if (tracer_.IsErrorOfOperator(text)) return true;
  const std::string context =
      absl::StrCat(DescribeCallable(callable), " raised \"", text.substr(0, text.find('\n')), "\"");
  if (IsErrorHandled()) {
    Break(GraphBreakKind::kUnconfirmedError, context);
    return false;
  }
  unconfirmed_error_ = ReasonHere(GraphBreakKind::kUnconfirmedError, context);
  return true;
}

}  // namespace framefuse
