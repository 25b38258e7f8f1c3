#include "guards/held.h"

#include "guards/immutable.h"

namespace framefuse {
namespace {

bool IsLocalName(PyObject* qualified_name) {
  static PyObject* const locals = PyUnicode_InternFromString("<locals>");
  return qualified_name != nullptr &&
         PyUnicode_Find(qualified_name, locals, 0, PyUnicode_GET_LENGTH(qualified_name), 1) >= 0;
}

bool IsMortal(BorrowedRef object) {
  PyObject* o = object.get();
  if (PyCode_Check(o)) return true;
  if (PyType_Check(o)) return IsLocalClass(o);
  if (PyFunction_Check(o)) return IsLocalName(reinterpret_cast<PyFunctionObject*>(o)->func_qualname);
  // Functions of modules have one of these.
  if (PyCFunction_Check(o)) return PyCFunction_GET_SELF(o) == nullptr;
  if (PyModule_Check(o)) return false;
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) && !IsImmutable(object);
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
  if (IsLocalClass(object)) held.HoldWeakly();
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
