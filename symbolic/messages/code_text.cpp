#include "symbolic/messages/code_text.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/bytecode/lines.h"
#include "frame_eval/import_module.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {

std::string Utf8(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return "";
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) {
    PyErr_Clear();
    return "";
  }
  return std::string(data, static_cast<std::size_t>(size));
}

bool IsCellSlot(PyCodeObject* code, int slot) {
  constexpr int kCellOrFree = 0x40 | 0x80;  // CO_FAST_CELL, CO_FAST_FREE
  return (PyBytes_AS_STRING(code->co_localspluskinds)[slot] & kCellOrFree) != 0;
}

std::string FileNameOf(PyCodeObject* code) { return Utf8(code->co_filename); }
std::string NameOf(PyCodeObject* code) { return Utf8(code->co_name); }
std::string QualifiedNameOf(PyCodeObject* code) { return Utf8(code->co_qualname); }

int LineOf(PyCodeObject* code, int instruction) { return LineOfUnit(code, instruction); }

namespace {

// The file's lines, or null. linecache's own cache is the program's: it is read and left as it was.
Ref LinesOf(PyObject* file) {
  static PyObject* const known = PyDict_New();
  PyObject* found = PyDict_GetItemWithError(known, file);
  if (found != nullptr) return Ref::Create(found);
  static PyObject* const linecache = ImportModule("linecache").release();
  Ref cache = linecache != nullptr ? Ref::Steal(PyObject_GetAttrString(linecache, "cache")) : Ref();
  if (!cache || !PyDict_CheckExact(cache.get())) return Ref();
  PyObject* const entry = PyDict_GetItemWithError(cache, file);
  const bool was_cached = entry != nullptr;
  // (size, time, lines, path); a shorter one is lazy.
  if (was_cached && PyTuple_Check(entry) && PyTuple_GET_SIZE(entry) == 4 &&
      PyList_CheckExact(PyTuple_GET_ITEM(entry, 2))) {
    return Ref::Create(PyTuple_GET_ITEM(entry, 2));
  }
  Ref lines = Ref::Steal(PyObject_CallMethod(linecache, "getlines", "O", file));
  if (!was_cached && PyDict_Contains(cache, file) == 1) PyDict_DelItem(cache, file);
  if (!lines || !PyList_CheckExact(lines.get())) return Ref();
  // Text that a program put into the cache itself may change under the same name.
  if (!was_cached) PyDict_SetItem(known, file, lines);
  return lines;
}

}  // namespace

namespace {

// Leaves the error indicator as it is.
std::string FromLines(PyObject* file, int first, int last) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  std::string text;
  const Ref lines = LinesOf(file);
  const Py_ssize_t count = lines ? PyList_GET_SIZE(lines.get()) : 0;
  for (Py_ssize_t i = first; i <= std::min<Py_ssize_t>(last, count); ++i) {
    text.append(Utf8(PyList_GET_ITEM(lines.get(), i - 1)));
  }
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return text;
}

}  // namespace

std::string RawSourceLine(PyCodeObject* code, int line) {
  return line > 0 ? FromLines(code->co_filename, line, line) : "";
}

std::string SourceText(const std::string& file) {
  const Ref name = Ref::Steal(PyUnicode_FromString(file.c_str()));
  if (!name) PyErr_Clear();
  return name ? FromLines(name, 1, std::numeric_limits<int>::max()) : "";
}

std::string SourceLine(PyCodeObject* code, int line) {
  return std::string(absl::StripAsciiWhitespace(RawSourceLine(code, line)));
}

std::string_view NameOfCallable(PyObject* callable) {
  PyObject* name = nullptr;
  if (PyFunction_Check(callable)) name = reinterpret_cast<PyFunctionObject*>(callable)->func_name;
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type) {
    name = reinterpret_cast<PyDescrObject*>(callable)->d_name;
  }
  const char* text = name == nullptr ? nullptr : PyUnicode_AsUTF8(name);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "" : text;
}

namespace {

std::string TextAttribute(PyObject* object, const char* name) {
  const Ref found = Ref::Steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return found ? Utf8(found) : "";
}

// "numpy.sort"; "": it has no name.
std::string DottedName(PyObject* callable) {
  const std::string qualified = TextAttribute(callable, "__qualname__");
  const std::string name = qualified.empty() ? TextAttribute(callable, "__name__") : qualified;
  const std::string module = TextAttribute(callable, "__module__");
  return name.empty() ? "" : absl::StrCat(module.empty() ? "numpy" : module, ".", name);
}

}  // namespace

std::string DescribeCallable(PyObject* callable) {
  if (PyFunction_Check(callable)) {
    auto* f = reinterpret_cast<PyFunctionObject*>(callable);
    return absl::StrCat(Utf8(f->func_module), ".", Utf8(f->func_qualname));
  }
  if (PyCFunction_Check(callable)) {
    auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
    PyObject* self = f->m_self;
    if (self != nullptr && !PyModule_Check(self) && !PyType_Check(self)) {
      return absl::StrCat(Py_TYPE(self)->tp_name, ".", f->m_ml->ml_name);
    }
    const bool of_type = self != nullptr && PyType_Check(self) && f->m_module == nullptr;
    const std::string module = of_type ? reinterpret_cast<PyTypeObject*>(self)->tp_name : Utf8(f->m_module);
    return module.empty() ? f->m_ml->ml_name : absl::StrCat(module, ".", f->m_ml->ml_name);
  }
  if (PyType_Check(callable)) return reinterpret_cast<PyTypeObject*>(callable)->tp_name;
  if (Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type) {
    auto* d = reinterpret_cast<PyDescrObject*>(callable);
    return absl::StrCat(d->d_type->tp_name, ".", Utf8(d->d_name));
  }
  const std::string type = Py_TYPE(callable)->tp_name;
  // NumPy's and Cython's functions are objects of C types of their own, which give their names without running Python.
  const std::string name = type.starts_with("numpy.") || type.starts_with("_cython_") ? DottedName(callable) : "";
  return name.empty() ? absl::StrCat("an object of type ", type) : name;
}

}  // namespace framefuse
