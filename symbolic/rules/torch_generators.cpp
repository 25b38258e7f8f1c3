#include "symbolic/rules/torch_generators.h"
#include "frame_eval/import_module.h"

namespace framefuse {
namespace {

PyTypeObject* GeneratorType() {
  static PyObject* const type = [] {
    const Ref torch = ImportModule("torch");
    return torch ? PyObject_GetAttrString(torch, "Generator") : nullptr;
  }();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool IsTorchGenerator(BorrowedRef object) { return object.type() == GeneratorType(); }

bool IsOfGenerators(BorrowedRef callable) {
  if (callable.get() == reinterpret_cast<PyObject*>(GeneratorType())) return true;
  return Py_IS_TYPE(callable.get(), &PyMethodDescr_Type) &&
         reinterpret_cast<PyDescrObject*>(callable.get())->d_type == GeneratorType();
}

Ref MakerOfCopies(BorrowedRef generator) {
  const Ref copy = Ref::Steal(PyObject_CallMethod(generator, "clone_state", nullptr));
  return copy ? Ref::Steal(PyObject_GetAttrString(copy, "clone_state")) : Ref();
}

}  // namespace framefuse
