#include "guards/dict_lookup.h"

#include "frame_eval/versions/dict_reads.h"
#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "guards/leaf/tensor.h"

namespace framefuse {
namespace {

bool HasObjectEquality(PyTypeObject* type) {
  return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

// Classes derived from int or str that compare as these do, without Python code.
bool ComparesByValue(PyTypeObject* type) {
  for (PyTypeObject* base : {&PyLong_Type, &PyUnicode_Type}) {
    if (type->tp_hash == base->tp_hash && type->tp_richcompare == base->tp_richcompare) return true;
  }
  return false;
}

// A type of C's own lives for ever; no other object is equal to it.
bool IsStaticType(BorrowedRef key) {
  return key.type() == &PyType_Type &&
         (reinterpret_cast<PyTypeObject*>(key.get())->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
}

bool IsFoundByValue(BorrowedRef key) {
  if (IsImmutableKey(key) || IsTorchDevice(key)) return true;
  if (!PyTuple_CheckExact(key.get())) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key.get()); ++i) {
    const BorrowedRef part = PyTuple_GET_ITEM(key.get(), i);
    if (!IsImmutableKey(part) && !IsStaticType(part)) return false;
  }
  return true;
}

// How one entry of a scanned dict relates to the key that is looked for.
Lookup Compare(const DictKey& key, PyObject* wanted, PyObject* candidate, Py_hash_t hash) {
  if (candidate == wanted) return Lookup::kFound;
  if (key.mode == DictKey::Mode::kOpaque || hash != key.hash) return Lookup::kAbsent;
  const bool by_value = key.mode != DictKey::Mode::kIdentity;
  if (IsFoundByValue(candidate) || ComparesByValue(Py_TYPE(candidate))) {
    return by_value && EqualAsKeys(candidate, wanted) ? Lookup::kFound : Lookup::kAbsent;
  }
  return HasObjectEquality(Py_TYPE(candidate)) ? Lookup::kAbsent : Lookup::kUnknown;
}

Lookup Scan(PyObject* dict, const DictKey& key, PyObject** value) {
  PyObject* wanted = key.key.get();
  if (wanted == nullptr) return Lookup::kUnknown;
  PyObject* candidate = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = key.hint;
  if (position > 0 && private_api::DictNext(dict, &position, &candidate, value, &hash) && candidate == wanted) {
    return Lookup::kFound;
  }
  position = 0;
  for (Py_ssize_t before = 0; private_api::DictNext(dict, &position, &candidate, value, &hash); before = position) {
    const Lookup result = Compare(key, wanted, candidate, hash);
    if (result == Lookup::kAbsent) continue;
    if (result == Lookup::kFound) key.hint = before;
    return result;
  }
  return key.mode == DictKey::Mode::kOpaque ? Lookup::kUnknown : Lookup::kAbsent;
}

}  // namespace

DictKey::DictKey(BorrowedRef object) : key(object) {
  PyTypeObject* type = object.type();
  if (type == &PyUnicode_Type) {
    mode = Mode::kString;
  } else if (IsFoundByValue(object)) {
    mode = Mode::kImmutable;
  } else if (HasObjectEquality(type)) {
    mode = Mode::kIdentity;
  } else {
    return;
  }
  hash = PyObject_Hash(object.get());
  if (hash == -1) {
    PyErr_Clear();
    mode = Mode::kOpaque;
  }
}

Lookup FindInDict(BorrowedRef dict, const DictKey& key, PyObject** value) {
  if (!frame_ops::HasOnlyStringKeys(dict)) return Scan(dict, key, value);
  // Only strings are in there: nothing else can be equal to them, unless its own type says so.
  if (key.mode == DictKey::Mode::kOpaque) return Lookup::kUnknown;
  if (key.mode != DictKey::Mode::kString) return Lookup::kAbsent;
  *value = private_api::DictGet(dict, key.key.reference(), key.hash);
  return *value != nullptr ? Lookup::kFound : Lookup::kAbsent;
}

}  // namespace framefuse
