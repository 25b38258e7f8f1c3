// Keys of dicts and elements of sets from outside. Captured code gets them from iterators of C code, without a source;
// a guard on the whole compares immutables by their value, and everything else by identity: those are constants then.

#include "guards/immutable.h"
#include "symbolic/capture/builtin_types.h"
#include "symbolic/capture/journals/break_controller.h"
#include "symbolic/capture/journals/object_table.h"
#include "symbolic/capture/journals/read_journal.h"

namespace framefuse {
namespace {

// A look-up may run it on the very objects.
bool HasEqualityOfItsOwn(PyTypeObject* type) {
  return IsPythonClass(type) && type->tp_richcompare != NativeBase(type)->tp_richcompare;
}

}  // namespace

bool ObjectTable::AdoptElement(BorrowedRef element) {
  PyObject* o = element;
  if (IsLeaf(element)) return true;
  if (PyType_Check(o)) return !HasEqualityOfItsOwn(element.type());
  if (IsImmutableKey(element)) {
    elements_by_value_.insert(o);
    return true;
  }
  if (PyTuple_CheckExact(o)) {
    elements_by_value_.insert(o);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
      if (!AdoptElement(PyTuple_GET_ITEM(o, i))) return false;
    }
    return true;
  }
  const TrackedKind kind = Classify(element);
  const bool known = kind == TrackedKind::kInstance || kind == TrackedKind::kFunction ||
                     kind == TrackedKind::kCallable || IsNumberOrTextClass(element.type());
  const bool ends_loudly = IsPythonClass(element.type()) && element.type()->tp_finalize != nullptr;
  if (!known || ends_loudly || PyWeakref_Check(o) || HasEqualityOfItsOwn(element.type())) return false;
  if (IsPythonClass(element.type()) && !reads_.GuardProtocolMethods(element.type())) return false;
  return static_cast<bool>(Adopt(element, reads_.ElementSource(element)));
}

}  // namespace framefuse
