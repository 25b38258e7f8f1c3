#include "guards/held.h"

#include "guards/immutable.h"

namespace framefuse {
namespace {

// A module's classes live as long as the module.
bool IsLocalClass(PyObject* o) {
  if (!PyType_Check(o)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(o);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  PyObject* name = reinterpret_cast<PyHeapTypeObject*>(o)->ht_qualname;
  static PyObject* const locals = PyUnicode_InternFromString("<locals>");
  return name != nullptr && PyUnicode_Find(name, locals, 0, PyUnicode_GET_LENGTH(name), 1) >= 0;
}

bool IsMortal(BorrowedRef object) {
  PyObject* o = object.get();
  if (PyCode_Check(o)) return true;
  if (PyType_Check(o)) return IsLocalClass(o);
  if (PyFunction_Check(o) || PyModule_Check(o) || PyCFunction_Check(o)) return false;
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) && !IsImmutable(object);
}

}  // namespace

Held::Held(BorrowedRef object) : reference_(Ref::Create(object.get())) {
  if (object && IsMortal(object)) HoldWeakly();
}

Held Held::ForUse(BorrowedRef object) {
  Held held;
  held.reference_ = Ref::Create(object.get());
  if (object && IsLocalClass(object.get())) held.HoldWeakly();
  return held;
}

void Held::HoldWeakly() {
  Ref weak = Ref::Steal(PyWeakref_NewRef(reference_.get(), nullptr));
  if (!weak) {
    PyErr_Clear();
    return;
  }
  reference_ = std::move(weak);
  weak_ = true;
}

}  // namespace framefuse
