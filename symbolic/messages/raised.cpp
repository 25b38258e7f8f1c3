#include "symbolic/messages/raised.h"

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {

Raised TakeRaised(PyThreadState* thread) {
  Raised raised;
  const Ref error = frame_ops::FetchRaised(thread);
  if (!error || !PyExceptionInstance_Check(error.get())) return raised;
  raised.type = Ref::Create(reinterpret_cast<PyObject*>(Py_TYPE(error.get())));
  raised.text = Py_TYPE(error.get())->tp_name;
  const auto* exception = reinterpret_cast<PyBaseExceptionObject*>(error.get());
  if (PyTuple_GET_SIZE(exception->args) > 0) {
    const std::string message = Utf8(PyTuple_GET_ITEM(exception->args, 0));
    if (!message.empty()) absl::StrAppend(&raised.text, ": ", message.substr(0, message.find('\n')));
  }
  if (exception->traceback == nullptr || !PyTraceBack_Check(exception->traceback)) return raised;
  const auto* last = reinterpret_cast<PyTracebackObject*>(exception->traceback);
  while (last->tb_next != nullptr) last = last->tb_next;
  const auto code = RefOf<PyCodeObject>::Steal(PyFrame_GetCode(last->tb_frame));
  const int line = PyCode_Addr2Line(code.get(), last->tb_lasti);
  absl::StrAppend(&raised.text, " (", FileNameOf(code.get()), ":", line, ")");
  return raised;
}

}  // namespace framefuse
