#include "symbolic/journals/class_order.h"

#include "guards/class_order.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

void AddClasses(ReadJournal& reads, PyTypeObject* type, BorrowedRef name, BorrowedRef classes) {
  const BorrowedRef object(reinterpret_cast<PyObject*>(type));
  const Ref expected = Ref::Steal(PyTuple_Pack(2, name.get(), classes.get()));
  reads.AddGuard(reads.ConstantSource(object), GuardKind::kTypeLookup, expected);
}

bool MayGetOtherBases(PyTypeObject* type) {
  return IsPythonClass(type) && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
}

}  // namespace

void GuardClassOrder(ReadJournal& reads, PyTypeObject* type) {
  if (!MayGetOtherBases(type)) return;
  static PyObject* const name = PyUnicode_InternFromString(kOrderOfClasses);
  if (reads.Rebase(reads.ConstantSource(BorrowedRef(reinterpret_cast<PyObject*>(type))))) {
    AddClasses(reads, type, name, type->tp_mro);
    return;
  }
  // A class of this attempt is made again of the bases that it has; theirs may change.
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
    GuardClassOrder(reads, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
  }
}

void GuardBases(ReadJournal& reads, PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString(kBasesOfClass);
  if (MayGetOtherBases(type)) AddClasses(reads, type, name, type->tp_bases);
}

}  // namespace framefuse
