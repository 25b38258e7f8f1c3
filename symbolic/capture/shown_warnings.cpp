#include "symbolic/capture/shown_warnings.h"

#include "symbolic/capture/call_rules.h"

namespace framefuse {
namespace {

void Remove(PyObject* registry, BorrowedRef text, BorrowedRef category, BorrowedRef line) {
  const Ref key = Ref::Steal(PyTuple_Pack(3, text.get(), category.get(), line.get()));
  if (!key || PyDict_DelItem(registry, key.get()) != 0) PyErr_Clear();
}

}  // namespace

bool ShowsWarning(PyCodeObject* code) {
  return PyUnicode_CompareWithASCIIString(code->co_name, "_showwarnmsg") == 0 && IsWarningsCode(code);
}

void ForgetWarning(frame_ops::Frame* show, PyObject* globals) {
  PyObject* registry = PyDict_GetItemString(globals, "__warningregistry__");
  PyObject* shown = frame_ops::Slots(show)[0];
  if (registry == nullptr || !PyDict_CheckExact(registry) || shown == nullptr) return;
  const Ref message = Ref::Steal(PyObject_GetAttrString(shown, "message"));
  const Ref category = Ref::Steal(PyObject_GetAttrString(shown, "category"));
  const Ref line = Ref::Steal(PyObject_GetAttrString(shown, "lineno"));
  const Ref text = message ? Ref::Steal(PyObject_Str(message.get())) : Ref();
  const Ref whole_module = Ref::Steal(PyLong_FromLong(0));  // how the filter "module" notes it
  PyErr_Clear();
  if (!text || !category || !line || !whole_module) return;
  Remove(registry, text, category, line);
  Remove(registry, text, category, whole_module);
}

}  // namespace framefuse
