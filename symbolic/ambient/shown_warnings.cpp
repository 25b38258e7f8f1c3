#include "symbolic/ambient/shown_warnings.h"

#include "frame_eval/import_module.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {
namespace {

void Remove(PyObject* registry, BorrowedRef text, BorrowedRef category, BorrowedRef line) {
  const Ref key = Ref::Steal(PyTuple_Pack(3, text.get(), category.get(), line.get()));
  if (!key || PyDict_DelItem(registry, key.get()) != 0) PyErr_Clear();
}

// warnings.filters, if it is a list; the module lives as long as the process.
PyObject* Filters() {
  static PyObject* const module = ImportModule("warnings").release();
  static PyObject* const name = PyUnicode_InternFromString("filters");
  if (module == nullptr) return nullptr;
  PyObject* filters = PyDict_GetItem(PyModule_GetDict(module), name);
  return filters != nullptr && PyList_CheckExact(filters) ? filters : nullptr;
}

PyObject* FilterThatShows() {
  static PyObject* const filter = Py_BuildValue("(sOOOi)", "always", Py_None, PyExc_Warning, Py_None, 0);
  return filter;
}

// Whether it was there.
bool TakeOut(PyObject* filters) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i) {
    if (PyList_GET_ITEM(filters, i) != FilterThatShows()) continue;
    PyList_SetSlice(filters, i, i + 1, nullptr);
    return true;
  }
  return false;
}

}  // namespace

AllWarningsShown::AllWarningsShown() {
  PyObject* filters = Filters();
  if (filters == nullptr || (PyList_GET_SIZE(filters) > 0 && PyList_GET_ITEM(filters, 0) == FilterThatShows())) return;
  if (PyList_Insert(filters, 0, FilterThatShows()) == 0) filters_ = Ref::Create(filters);
}

AllWarningsShown::~AllWarningsShown() {
  if (filters_) TakeOut(filters_.get());
}

FiltersOfProgram::FiltersOfProgram() {
  PyObject* filters = Filters();
  if (filters != nullptr && TakeOut(filters)) filters_ = Ref::Create(filters);
}

FiltersOfProgram::~FiltersOfProgram() {
  if (filters_) PyList_Insert(filters_.get(), 0, FilterThatShows());
}

bool ShowsWarning(PyCodeObject* code) {
  return PyUnicode_CompareWithASCIIString(code->co_name, "_showwarnmsg") == 0 && IsWarningsCode(code);
}

bool DescribesWarning(frame_ops::Frame* frame) {
  PyFunctionObject* function = frame_ops::Function(frame);
  return IsWarningsCode(frame_ops::Code(frame)) &&
         PyUnicode_CompareWithASCIIString(function->func_qualname, "WarningMessage.__init__") == 0;
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
