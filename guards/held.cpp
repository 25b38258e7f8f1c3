#include "guards/held.h"

#include <cstring>

#include "guards/immutable.h"

namespace framefuse {
namespace {

bool IsLocalName(PyObject* qualified_name) {
  static PyObject* const locals = PyUnicode_InternFromString("<locals>");
  if (qualified_name == nullptr) return false;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(qualified_name);
  if (PyUnicode_FindChar(qualified_name, '<', 0, length, 1) < 0) return false;  // most names, and quickly seen
  return PyUnicode_Find(qualified_name, locals, 0, length, 1) >= 0;
}

// Functions of modules and classes live as long as these.
bool IsLasting(PyCFunctionObject* function) {
  PyObject* self = PyCFunction_GET_SELF(function);
  if (self == nullptr) return (PyCFunction_GET_FLAGS(function) & METH_STATIC) != 0;
  if (!PyModule_Check(self)) return PyType_Check(self);
  return PyDict_GetItemString(PyModule_GetDict(self), function->m_ml->ml_name) == reinterpret_cast<PyObject*>(function);
}

bool IsMortal(BorrowedRef object) {
  PyObject* o = object.get();
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(o))) return false;
  if (PyCode_Check(o)) return true;
  if (PyType_Check(o)) return IsLocalClass(o);
  if (PyFunction_Check(o)) return IsLocalName(reinterpret_cast<PyFunctionObject*>(o)->func_qualname);
  if (PyCFunction_Check(o)) return !IsLasting(reinterpret_cast<PyCFunctionObject*>(o));
  if (PyModule_Check(o)) return false;
  return !IsImmutable(object);
}

bool DiesWithItsFunction(BorrowedRef object) {
  if (PyFunction_Check(object.get())) return IsMortal(object);
  // By its name: the module may have been imported afresh.
  const bool caches = std::strcmp(object.type()->tp_name, "functools._lru_cache_wrapper") == 0;
  return IsLocalClass(object) || caches;
}

}  // namespace

// A module's classes live as long as the module.
bool IsLocalClass(BorrowedRef object) {
  if (!object || !PyType_Check(object.get())) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(object.get());
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  return IsLocalName(reinterpret_cast<PyHeapTypeObject*>(object.get())->ht_qualname);
}

Held::Held(BorrowedRef object) : reference_(Ref::Create(object.get())) {
  if (object && IsMortal(object)) HoldWeakly();
}

Held Held::ForUse(BorrowedRef object) {
  Held held;
  held.reference_ = Ref::Create(object.get());
  if (object && DiesWithItsFunction(object)) held.HoldWeakly();
  return held;
}

void Held::HoldWeakly() {
  Ref weak = Ref::Steal(PyWeakref_NewRef(reference_.get(), nullptr));
  if (!weak) {
    PyErr_Clear();
    return;
  }
  PyObject_GC_UnTrack(weak.get());  // without a callback it is in no cycle; programs count what the collector tracks
  reference_ = std::move(weak);
  weak_ = true;
}

}  // namespace framefuse
