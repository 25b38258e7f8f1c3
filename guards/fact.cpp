#include "guards/fact.h"

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/immutable.h"
#include "guards/leaf/tensor.h"
#include "guards/read.h"

namespace framefuse {
namespace {

bool MatchesElement(const Held& expected, BorrowedRef actual) {
  return expected.Is(actual) || (!expected.weak() && SameImmutable(expected.reference(), actual));
}

// Objects with object's own equality (dtypes, layouts, code …) are equal to themselves only.
bool CanCompare(BorrowedRef value) {
  const PyTypeObject* type = value.type();
  return IsImmutable(value) || IsTorchDevice(value) || PyCode_Check(value.get()) || type->tp_richcompare == nullptr ||
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool HoldsEquals(const Fact& fact, BorrowedRef value) {
  if (!value || fact.expected.weak()) return fact.expected.Is(value);
  const BorrowedRef expected = fact.expected.reference();
  return SameImmutable(expected, value) || SameTorchDevice(expected, value);
}

// Keys of an OrderedDict in its own order, which the dict below it does not know.
bool OrderedKeysAre(const std::vector<Held>& expected, BorrowedRef value) {
  // Iterating hashes the keys again: only those whose hash is C code.
  for (const Held& key : expected) {
    if (!key.get() || DictKey(key.get()).mode == DictKey::Mode::kOpaque) return false;
  }
  const GcPause no_collection;  // the iterator is a new container object
  Ref iterator = Ref::Steal(PyODict_Type.tp_iter(value.get()));
  std::size_t i = 0;
  while (iterator) {
    Ref key = Ref::Steal(PyIter_Next(iterator));
    if (!key) break;
    if (i == expected.size() || !MatchesElement(expected[i++], key)) return false;
  }
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return i == expected.size();
}

bool HoldsKeys(const Fact& fact, BorrowedRef value) {
  if (!value || !PyDict_Check(value.get())) return false;
  if (static_cast<std::size_t>(PyDict_GET_SIZE(value.get())) != fact.elements.size()) return false;
  if (IsOrderedDict(value)) return value.type() == &PyODict_Type && OrderedKeysAre(fact.elements, value);
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  for (const Held& expected : fact.elements) {
    if (!PyDict_Next(value.get(), &position, &key, nullptr) || !MatchesElement(expected, key)) return false;
  }
  return true;
}

bool HoldsSet(const Fact& fact, BorrowedRef value) {
  if (!value || !PyAnySet_CheckExact(value.get())) return false;
  if (static_cast<std::size_t>(PySet_GET_SIZE(value.get())) != fact.elements.size()) return false;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  for (const Held& expected : fact.elements) {
    if (!private_api::SetNext(value.get(), &position, &key) || !MatchesElement(expected, key)) return false;
  }
  return true;
}

BorrowedRef DictOrModuleDict(BorrowedRef value) {
  if (!value) return nullptr;
  if (PyDict_Check(value.get())) return value;
  return PyModule_Check(value.get()) ? PyModule_GetDict(value.get()) : nullptr;
}

bool HoldsHasKey(const Fact& fact, BorrowedRef value, Lookup wanted) {
  const BorrowedRef dict = DictOrModuleDict(value);
  PyObject* item = nullptr;
  return dict && FindInDict(dict, fact.key, &item) == wanted;
}

bool HoldsLacksAttr(const Fact& fact, BorrowedRef value) {
  if (!value) return false;
  if (PyObject* dict = InstanceDictOf(value)) {
    PyObject* item = nullptr;
    return FindInDict(dict, fact.key, &item) == Lookup::kAbsent;
  }
  return frame_ops::RawInstanceAttr(value, fact.key.key.get()) == nullptr;
}

bool HoldsTypeLookup(const Fact& fact, BorrowedRef value) {
  if (!value || !PyType_Check(value.get())) return false;
  if (fact.number != 0) return frame_ops::TypeVersion(reinterpret_cast<PyTypeObject*>(value.get())) == fact.number;
  PyObject* found = frame_ops::TypeLookup(reinterpret_cast<PyTypeObject*>(value.get()), fact.key.key.get());
  return fact.expected.empty() ? found == nullptr : fact.expected.Is(found);
}

bool HoldsTypeLookups(const Fact& fact, BorrowedRef value) {
  if (!value || !PyType_Check(value.get())) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(value.get());
  if (fact.number != 0 && frame_ops::TypeVersion(type) == fact.number) return true;
  for (std::size_t i = 0; i < fact.elements.size(); ++i) {
    PyObject* name = PyTuple_GET_ITEM(fact.found.get(), static_cast<Py_ssize_t>(i));
    if (!fact.elements[i].Is(frame_ops::TypeLookup(type, name))) return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fact.absent.get()); ++i) {
    if (frame_ops::TypeLookup(type, PyTuple_GET_ITEM(fact.absent.get(), i)) != nullptr) return false;
  }
  return true;
}

absl::Status FillElements(BorrowedRef expected, Fact* fact) {
  if (!expected) return absl::InvalidArgumentError("a key or set guard needs its expected elements");
  Ref items = Ref::Steal(PySequence_List(expected));
  if (!items) {
    PyErr_Clear();
    return absl::InvalidArgumentError("a key or set guard needs a list, tuple or set");
  }
  fact->elements.reserve(static_cast<std::size_t>(PyList_GET_SIZE(items.get())));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    fact->elements.emplace_back(PyList_GET_ITEM(items.get(), i));
  }
  return absl::OkStatus();
}

absl::Status FillLookups(BorrowedRef lookups, Fact* fact) {
  PyObject *found = nullptr, *objects = nullptr, *absent = nullptr;
  if (!lookups || !PyTuple_Check(lookups.get()) ||
      PyArg_ParseTuple(lookups.get(), "O!O!O!", &PyTuple_Type, &found, &PyTuple_Type, &objects, &PyTuple_Type,
                       &absent) == 0 ||
      PyTuple_GET_SIZE(found) != PyTuple_GET_SIZE(objects)) {
    PyErr_Clear();
    return absl::InvalidArgumentError("kTypeLookups needs names, what they give, and names that give nothing");
  }
  fact->found = Ref::Create(found);
  fact->absent = Ref::Create(absent);
  return FillElements(objects, fact);
}

}  // namespace

absl::Status MakeFact(const Guard& guard, Fact* fact) {
  fact->source = guard.source;
  fact->kind = guard.kind;
  fact->number = guard.aux;
  if (guard.where.code) fact->where = {Ref::Create(guard.where.code->co_filename), guard.where.line};
  switch (guard.kind) {
    case GuardKind::kTypeIs:
    case GuardKind::kIdentity:
    case GuardKind::kEquals:
      if (!guard.expected) return absl::InvalidArgumentError("a guard on a value needs the expected one");
      fact->expected = Held(guard.expected);
      if (guard.kind == GuardKind::kEquals && !CanCompare(guard.expected)) {
        return absl::InvalidArgumentError("kEquals needs a value that can be compared without user code");
      }
      break;
    case GuardKind::kHasKey:
    case GuardKind::kLacksKey:
    case GuardKind::kLacksAttr:
      if (!guard.expected) return absl::InvalidArgumentError("a key guard needs its key");
      fact->key = DictKey(guard.expected);
      if (fact->key.mode == DictKey::Mode::kOpaque && guard.kind != GuardKind::kHasKey) {
        return absl::InvalidArgumentError("the absence of a key whose hash or equality is user code cannot be guarded");
      }
      break;
    case GuardKind::kTypeLookup: {
      PyObject* pair = guard.expected;
      if (pair == nullptr || !PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) < 1) {
        return absl::InvalidArgumentError("kTypeLookup needs (name,) or (name, object)");
      }
      fact->key = DictKey(PyTuple_GET_ITEM(pair, 0));
      if (PyTuple_GET_SIZE(pair) > 1 && guard.aux == 0) fact->expected = Held(PyTuple_GET_ITEM(pair, 1));
      break;
    }
    case GuardKind::kKeys:
    case GuardKind::kSetEquals:
      if (absl::Status status = FillElements(guard.expected, fact); !status.ok()) return status;
      break;
    case GuardKind::kTypeLookups:
      if (absl::Status status = FillLookups(guard.expected, fact); !status.ok()) return status;
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

bool Holds(const Fact& fact, BorrowedRef value) {
  switch (fact.kind) {
    case GuardKind::kTypeIs:
      return value && fact.expected.Is(reinterpret_cast<PyObject*>(value.type()));
    case GuardKind::kIdentity:
      return fact.expected.Is(value);
    case GuardKind::kEquals:
      return HoldsEquals(fact, value);
    case GuardKind::kLength:
      return value && RawLength(value) == fact.number;
    case GuardKind::kKeys:
      return HoldsKeys(fact, value);
    case GuardKind::kHasKey:
      return HoldsHasKey(fact, value, Lookup::kFound);
    case GuardKind::kLacksKey:
      return HoldsHasKey(fact, value, Lookup::kAbsent);
    case GuardKind::kLacksAttr:
      return HoldsLacksAttr(fact, value);
    case GuardKind::kSetEquals:
      return HoldsSet(fact, value);
    case GuardKind::kTypeLookup:
      return HoldsTypeLookup(fact, value);
    case GuardKind::kTypeLookups:
      return HoldsTypeLookups(fact, value);
    case GuardKind::kCellEmpty:
      return value && PyCell_Check(value.get()) && PyCell_GET(value.get()) == nullptr;
    case GuardKind::kNull:
      return !value;
    default:
      return false;
  }
}

}  // namespace framefuse
