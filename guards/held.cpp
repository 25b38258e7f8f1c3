#include "guards/held.h"

#include "guards/immutable.h"

namespace framefuse {
namespace {

bool HoldWeakly(BorrowedRef object) {
  PyObject* o = object.get();
  if (PyCode_Check(o)) return true;
  if (PyType_Check(o) || PyFunction_Check(o) || PyModule_Check(o) || PyCFunction_Check(o)) return false;
  return PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) && !IsImmutable(object);
}

}  // namespace

Held::Held(BorrowedRef object) : reference_(Ref::Create(object.get())) {
  if (!object || !HoldWeakly(object)) return;
  Ref weak = Ref::Steal(PyWeakref_NewRef(object.get(), nullptr));
  if (!weak) {
    PyErr_Clear();
    return;
  }
  reference_ = std::move(weak);
  weak_ = true;
}

}  // namespace framefuse
