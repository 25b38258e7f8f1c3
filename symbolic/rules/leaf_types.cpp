#include "symbolic/rules/leaf_types.h"

#include "absl/container/flat_hash_set.h"
#include "frame_eval/versions/private_api.h"

namespace framefuse {
namespace {

absl::flat_hash_set<PyTypeObject*>& LeafTypes() {
  static auto* types = new absl::flat_hash_set<PyTypeObject*>{
      &PyBytes_Type, Py_TYPE(Py_None), &PyComplex_Type, Py_TYPE(Py_Ellipsis), Py_TYPE(Py_NotImplemented), &PyCode_Type};
  return *types;
}

}  // namespace

bool IsFrozensetOfLeaves(BorrowedRef object) {
  PyObject* item = nullptr;
  Py_ssize_t at = 0;
  while (PyFrozenSet_CheckExact(object.get()) && private_api::SetNext(object.get(), &at, &item)) {
    if (!IsLeaf(item)) return false;
  }
  return PyFrozenSet_CheckExact(object.get());
}

bool IsOtherLeaf(BorrowedRef object) { return LeafTypes().contains(object.type()); }
void AddLeafType(PyTypeObject* type) { LeafTypes().insert(type); }

}  // namespace framefuse
