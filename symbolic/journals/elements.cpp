// Keys of dicts and elements of sets from outside. Captured code gets them from iterators of C code, without a source;
// a guard on the whole compares immutables by their value, and everything else by identity: those are constants then.

#include "symbolic/journals/elements.h"

#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "guards/leaf/tensor.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/rules/builtin_types.h"

namespace framefuse {
namespace {

// Of an object that is known by its address. Nothing hears of its end but the standard library's containers: an entry
// keeps the reference longer than they do.
bool IsKeyOfWeakContainer(PyObject* reference) {
  if (!PyWeakref_CheckRefExact(reference)) return false;
  PyObject* callback = reinterpret_cast<PyWeakReference*>(reference)->wr_callback;
  return callback == nullptr || IsOfWeakContainer(callback);
}

}  // namespace

bool HasEqualityOfItsOwn(PyTypeObject* type) {
  return IsPythonClass(type) && type->tp_richcompare != NativeBase(type)->tp_richcompare;
}

bool HoldsKeysThatCompare(BorrowedRef container) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *unused = nullptr;
  const bool dict = PyDict_Check(container.get());
  while (dict ? PyDict_Next(container, &position, &key, &unused) != 0
              : PyAnySet_Check(container.get()) && private_api::SetNext(container.get(), &position, &key)) {
    if (!IsTensor(key) && HasEqualityOfItsOwn(Py_TYPE(key))) return true;
  }
  return false;
}

bool IsOfWeakContainer(BorrowedRef callback) {
  if (!PyFunction_Check(callback.get())) return false;
  PyObject* module = PyDict_GetItemString(PyFunction_GET_GLOBALS(callback.get()), "__name__");
  return module != nullptr && PyUnicode_Check(module) &&
         (PyUnicode_CompareWithASCIIString(module, "weakref") == 0 ||
          PyUnicode_CompareWithASCIIString(module, "_weakrefset") == 0);
}

bool IsKnownByAddress(BorrowedRef object) {
  PyTypeObject* type = object.type();
  return IsPythonClass(type) && type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool IsFoundByItself(BorrowedRef object) {
  if (PyCFunction_Check(object.get())) return true;  // of which object, and what
  if (PyMethod_Check(object.get())) return PyFunction_Check(PyMethod_GET_FUNCTION(object.get()));
  return IsHashedByIdentity(object.type());
}

bool IsKeyOfItsOwn(BorrowedRef object) {
  return IsLeaf(object) || (PyType_Check(object.get()) && IsFoundByItself(object));
}

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
  if (PyWeakref_Check(o)) {
    PyObject* target = private_api::Referent(o);
    if (!IsKeyOfWeakContainer(o) || target == Py_None || !IsKnownByAddress(target)) return false;
    elements_by_value_.insert(o);
    return AdoptElement(target);
  }
  const TrackedKind kind = Classify(element);
  const bool known = kind == TrackedKind::kInstance || kind == TrackedKind::kFunction ||
                     kind == TrackedKind::kCallable || IsNumberOrTextClass(element.type());
  const bool ends_loudly = IsPythonClass(element.type()) && element.type()->tp_finalize != nullptr;
  if (!known || ends_loudly) return false;
  if (HasEqualityOfItsOwn(element.type()) && kind != TrackedKind::kInstance) return false;
  if (IsPythonClass(element.type()) && !reads_.GuardProtocolMethods(element.type())) return false;
  return static_cast<bool>(Adopt(element, reads_.ElementSource(element)));
}

}  // namespace framefuse
