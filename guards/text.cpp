#include "guards/text.h"

#include <cstdio>
#include <string_view>

#include "frame_eval/versions/frame_ops.h"
#include "guards/immutable.h"
#include "guards/leaf/tensor.h"

namespace framefuse {
namespace {

// Long literals make no log readable.
constexpr std::size_t kMaxRepr = 200;

std::string Utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
  if (data == nullptr) {
    PyErr_Clear();  // lone surrogates
    return "?";
  }
  return std::string(data, static_cast<std::size_t>(size));
}

std::string Shortened(std::string text) {
  if (text.size() <= kMaxRepr) return text;
  std::size_t cut = kMaxRepr;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
  return text.substr(0, cut) + "…";
}

std::string WithModule(PyObject* module, const std::string& name) {
  if (module == nullptr || !PyUnicode_Check(module)) return name;
  const std::string prefix = Utf8(module);
  return prefix == "builtins" ? name : prefix + "." + name;
}

std::string TupleText(PyObject* tuple) {
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  std::string text = PyTuple_CheckExact(tuple) ? "(" : TypeText(Py_TYPE(tuple)) + "((";
  for (Py_ssize_t i = 0; i < size; ++i) text += (i ? ", " : "") + ReprText(PyTuple_GET_ITEM(tuple, i));
  if (size == 1) text += ",";
  return text + (PyTuple_CheckExact(tuple) ? ")" : "))");
}

std::string NameOfC(PyCFunctionObject* f) {
  if (f->m_self != nullptr && PyType_Check(f->m_self) && f->m_module == nullptr) {
    return TypeText(reinterpret_cast<PyTypeObject*>(f->m_self)) + "." + f->m_ml->ml_name;
  }
  return WithModule(f->m_module, f->m_ml->ml_name);
}

std::string CodeText(PyCodeObject* code) {
  const std::string file = Utf8(code->co_filename);
  return "<code of " + Utf8(code->co_name) + " (" + file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(code->co_firstlineno) + ")>";
}

// Constants of torch whose repr() is C and their name.
bool IsNamedByTorch(std::string_view type) {
  return type == "torch.dtype" || type == "torch.layout" || type == "torch.memory_format";
}

}  // namespace

std::string TypeText(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type->tp_name;
  auto* heap_type = reinterpret_cast<PyHeapTypeObject*>(type);
  static PyObject* const module_key = PyUnicode_InternFromString("__module__");
  PyObject* module = frame_ops::TypeLookup(type, module_key);
  return WithModule(module, Utf8(heap_type->ht_qualname));
}

std::string ReprText(BorrowedRef object) {
  PyObject* o = object.get();
  if (o == nullptr) return "<absent>";
  if (PyTuple_Check(o) && IsImmutable(object)) return Shortened(TupleText(o));
  // Containers of immutables are left to the fallback: their repr would call that of tuple subclasses inside.
  if (IsImmutable(object) && Py_TYPE(o) != &PySlice_Type && Py_TYPE(o) != &PyFrozenSet_Type) {
    Ref repr = Ref::Steal(PyObject_Repr(o));
    if (!repr) PyErr_Clear();
    return repr ? Shortened(Utf8(repr)) : "?";
  }
  if (PyType_Check(o)) return TypeText(reinterpret_cast<PyTypeObject*>(o));
  if (PyModule_Check(o)) {
    const char* name = PyModule_GetName(o);
    if (name == nullptr) PyErr_Clear();
    return name != nullptr ? name : "<module>";
  }
  if (PyFunction_Check(o)) {
    auto* f = reinterpret_cast<PyFunctionObject*>(o);
    return WithModule(f->func_module, Utf8(f->func_qualname));
  }
  if (PyCFunction_Check(o)) return NameOfC(reinterpret_cast<PyCFunctionObject*>(o));
  if (Py_TYPE(o) == &PyMethodDescr_Type || Py_TYPE(o) == &PyWrapperDescr_Type) {
    return TypeText(PyDescr_TYPE(o)) + "." + Utf8(PyDescr_NAME(o));
  }
  if (IsTorchDevice(object)) return TorchDeviceText(object);
  if (PyCode_Check(o)) return CodeText(reinterpret_cast<PyCodeObject*>(o));
  if (IsNamedByTorch(Py_TYPE(o)->tp_name)) {
    const Ref repr = Ref::Steal(PyObject_Repr(o));
    if (repr) return Utf8(repr);
    PyErr_Clear();
  }
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<void*>(o));
  return "<" + TypeText(Py_TYPE(o)) + " object at " + address + ">";
}

std::string PlainText(BorrowedRef object) {
  return object && PyUnicode_CheckExact(object.get()) ? Utf8(object) : ReprText(object);
}

Ref TextInsteadOf(BorrowedRef object) {
  if (object.type() == &PyMemberDescr_Type) return Ref::Create(PyDescr_NAME(object.get()));
  const std::string text = ReprText(object);
  return Ref::Steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

}  // namespace framefuse
