#include "guards/kinds.h"

#include <iterator>

#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "guards/class_order.h"
#include "guards/immutable.h"
#include "guards/leaf/tensor.h"
#include "guards/read.h"
#include "guards/text.h"

namespace framefuse {
namespace {

// ---- whether a guard holds

bool MatchesElement(const Held& expected, BorrowedRef actual) {
  return expected.Is(actual) || (!expected.weak() && SameImmutable(expected.reference(), actual));
}

// Objects with object's own equality (dtypes, layouts, code …) are equal to themselves only.
bool CanCompare(BorrowedRef value) {
  const PyTypeObject* type = value.type();
  return IsImmutable(value) || IsTorchDevice(value) || PyCode_Check(value.get()) || type->tp_richcompare == nullptr ||
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool HoldsTypeIs(const Fact& fact, BorrowedRef value) {
  return value && fact.expected.Is(reinterpret_cast<PyObject*>(value.type()));
}

bool HoldsIdentity(const Fact& fact, BorrowedRef value) { return fact.expected.Is(value); }

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
  if (IsOrderedDict(value)) return OrderedKeysAre(fact.elements, value);
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  for (const Held& expected : fact.elements) {
    if (!PyDict_Next(value.get(), &position, &key, nullptr) || !MatchesElement(expected, key)) return false;
  }
  return true;
}

bool HoldsSet(const Fact& fact, BorrowedRef value) {
  if (!value || !PyAnySet_Check(value.get())) return false;  // its type is guarded for itself
  if (static_cast<std::size_t>(PySet_GET_SIZE(value.get())) != fact.elements.size()) return false;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  for (const Held& expected : fact.elements) {
    if (!private_api::SetNext(value.get(), &position, &key) || !MatchesElement(expected, key)) return false;
  }
  return true;
}

bool HoldsSetLayout(const Fact& fact, BorrowedRef value) {
  return value && PyAnySet_Check(value.get()) && private_api::SameSetLayout(fact.expected.get().get(), value.get());
}

// Of a class its own names alone.
BorrowedRef DictOfNames(BorrowedRef value) {
  if (!value || PyDict_Check(value.get())) return value;
  if (PyType_Check(value.get())) return frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(value.get()));
  return PyModule_Check(value.get()) ? PyModule_GetDict(value.get()) : nullptr;
}

Lookup FindKey(const Fact& fact, BorrowedRef value) {
  const BorrowedRef dict = DictOfNames(value);
  PyObject* item = nullptr;
  return dict ? FindInDict(dict, fact.key, &item) : Lookup::kUnknown;
}

bool HoldsHasKey(const Fact& fact, BorrowedRef value) { return FindKey(fact, value) == Lookup::kFound; }

bool HoldsLacksKey(const Fact& fact, BorrowedRef value) { return FindKey(fact, value) == Lookup::kAbsent; }

bool HoldsLacksAttr(const Fact& fact, BorrowedRef value) {
  if (!value) return false;
  if (PyObject* dict = InstanceDictOf(value)) {
    PyObject* item = nullptr;
    return FindInDict(dict, fact.key, &item) == Lookup::kAbsent;
  }
  return frame_ops::RawInstanceAttr(value, fact.key.key.get()) == nullptr;
}

bool HoldsOwnNames(const Fact& fact, BorrowedRef value) {
  if (!value) return false;
  PyObject* dict = frame_ops::RawInstanceDict(value);
  if (dict != nullptr && !PyDict_CheckExact(dict)) return false;
  PyObject *name = nullptr, *unused = nullptr;
  Py_ssize_t position = 0;
  for (const Held& expected : fact.elements) {
    if (!frame_ops::NextInstanceAttr(value, &position, &name, &unused) || !MatchesElement(expected, name)) return false;
  }
  return !frame_ops::NextInstanceAttr(value, &position, &name, &unused);
}

bool HoldsTypeLookup(const Fact& fact, BorrowedRef value) {
  if (!value || !PyType_Check(value.get())) return false;
  if (!fact.elements.empty()) return HasOrderOfClasses(value, fact.key.key.get(), fact.elements);
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

bool HoldsLength(const Fact& fact, BorrowedRef value) { return value && RawLength(value) == fact.number; }

bool HoldsCellEmpty(const Fact&, BorrowedRef value) {
  return value && PyCell_Check(value.get()) && PyCell_GET(value.get()) == nullptr;
}

bool HoldsNull(const Fact&, BorrowedRef value) { return !value; }

bool HoldsSameAs(BorrowedRef value, BorrowedRef other) { return value == other; }

bool HoldsDistinctFrom(BorrowedRef value, BorrowedRef other) { return value != other; }

// ---- what an entry keeps of it

absl::Status RecordObject(const Guard& guard, Fact* fact) {
  if (!guard.expected) return absl::InvalidArgumentError("a guard on a value needs the expected one");
  fact->expected = Held(guard.expected);
  return absl::OkStatus();
}

absl::Status RecordEqual(const Guard& guard, Fact* fact) {
  if (absl::Status status = RecordObject(guard, fact); !status.ok()) return status;
  if (CanCompare(guard.expected)) return absl::OkStatus();
  return absl::InvalidArgumentError("kEquals needs a value that can be compared without user code");
}

absl::Status RecordKey(const Guard& guard, Fact* fact) {
  if (!guard.expected) return absl::InvalidArgumentError("a key guard needs its key");
  fact->key = DictKey(guard.expected);
  return absl::OkStatus();
}

absl::Status RecordAbsentKey(const Guard& guard, Fact* fact) {
  if (absl::Status status = RecordKey(guard, fact); !status.ok()) return status;
  if (fact->key.mode != DictKey::Mode::kOpaque) return absl::OkStatus();
  return absl::InvalidArgumentError("the absence of a key whose hash or equality is user code cannot be guarded");
}

absl::Status HoldElements(BorrowedRef expected, Fact* fact) {
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

absl::Status RecordLookup(const Guard& guard, Fact* fact) {
  PyObject* const pair = guard.expected;
  if (pair == nullptr || !PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) < 1) {
    return absl::InvalidArgumentError("kTypeLookup needs (name,) or (name, object)");
  }
  fact->key = DictKey(PyTuple_GET_ITEM(pair, 0));
  if (IsOrderOfClasses(PyTuple_GET_ITEM(pair, 0))) return HoldElements(PyTuple_GET_ITEM(pair, 1), fact);
  if (PyTuple_GET_SIZE(pair) > 1 && guard.aux == 0) fact->expected = Held(PyTuple_GET_ITEM(pair, 1));
  return absl::OkStatus();
}

absl::Status RecordLookups(const Guard& guard, Fact* fact) {
  PyObject* const lookups = guard.expected;
  PyObject *found = nullptr, *objects = nullptr, *absent = nullptr;
  if (lookups == nullptr || !PyTuple_Check(lookups) ||
      PyArg_ParseTuple(lookups, "O!O!O!", &PyTuple_Type, &found, &PyTuple_Type, &objects, &PyTuple_Type, &absent) ==
          0 ||
      PyTuple_GET_SIZE(found) != PyTuple_GET_SIZE(objects)) {
    PyErr_Clear();
    return absl::InvalidArgumentError("kTypeLookups needs names, what they give, and names that give nothing");
  }
  fact->found = Ref::Create(found);
  fact->absent = Ref::Create(absent);
  return HoldElements(objects, fact);
}

absl::Status RecordElements(const Guard& guard, Fact* fact) { return HoldElements(guard.expected, fact); }

// The live set may change later.
absl::Status RecordSetLayout(const Guard& guard, Fact* fact) {
  const Ref elements = Ref::Steal(PySequence_Tuple(guard.expected));
  for (Py_ssize_t i = 0; elements && i < PyTuple_GET_SIZE(elements.get()); ++i) {
    // Where it stands is all that is compared: no object is kept alive.
    if (!IsImmutable(PyTuple_GET_ITEM(elements.get(), i))) PyTuple_SetItem(elements, i, Py_NewRef(Py_None));
  }
  const Ref copy = elements ? private_api::CopySetLayout(guard.expected.get(), elements) : Ref();
  if (!copy) {
    PyErr_Clear();
    return absl::ResourceExhaustedError("a set could not be copied");
  }
  fact->expected = Held::ForUse(copy);
  return absl::OkStatus();
}

// ---- how it is written

// The first of many tell which list it is.
constexpr std::size_t kShownElements = 12;

std::string ElementsText(const std::vector<Held>& elements) {
  std::string text = "[";
  for (std::size_t i = 0; i < elements.size() && i < kShownElements; ++i) {
    text += (i != 0 ? ", " : "") + ReprText(elements[i].get());
  }
  if (elements.size() <= kShownElements) return text + "]";
  return text + ", ... " + std::to_string(elements.size()) + " in all]";
}

std::string ExpectedText(const Held& expected) {
  return expected.weak() && !expected.get() ? "<an object that is gone>" : ReprText(expected.get());
}

std::string KeyText(const Fact& fact) { return ReprText(fact.key.key.get()); }

std::string WriteTypeIs(const Fact& fact, const GuardedNames& names) {
  return "type(" + names.source + ") is " + ExpectedText(fact.expected);
}

std::string WriteIdentity(const Fact& fact, const GuardedNames& names) {
  return names.source + " is " + ExpectedText(fact.expected);
}

std::string WriteEquals(const Fact& fact, const GuardedNames& names) {
  return names.source + " == " + ExpectedText(fact.expected);
}

std::string WriteLength(const Fact& fact, const GuardedNames& names) {
  return "len(" + names.source + ") == " + std::to_string(fact.number);
}

std::string WriteElements(const Fact& fact, const GuardedNames& names) {
  return "list(" + names.source + ") == " + ElementsText(fact.elements);
}

std::string WriteSetLayout(const Fact& fact, const GuardedNames& names) {
  return "table(" + names.source + ") == table of " + ReprText(fact.expected.get());
}

std::string WriteOwnNames(const Fact& fact, const GuardedNames& names) {
  return "list(" + names.source + ".__dict__) == " + ElementsText(fact.elements);
}

std::string WriteHasKey(const Fact& fact, const GuardedNames& names) { return KeyText(fact) + " in " + names.source; }

std::string WriteLacksKey(const Fact& fact, const GuardedNames& names) {
  return KeyText(fact) + " not in " + names.source;
}

std::string WriteLacksAttr(const Fact& fact, const GuardedNames& names) {
  return KeyText(fact) + " not in " + names.source + ".__dict__";
}

std::string WriteLookup(const Fact& fact, const GuardedNames& names) {
  return "lookup(" + names.source + ", " + KeyText(fact) + ") is " +
         (fact.number != 0         ? "as in version " + std::to_string(fact.number)
          : !fact.elements.empty() ? ElementsText(fact.elements)
          : fact.expected.empty()  ? "<absent>"
                                   : ExpectedText(fact.expected));
}

std::string WriteLookups(const Fact& fact, const GuardedNames& names) {
  return "lookups(" + names.source + ", " + ReprText(fact.found) + ") are " + ElementsText(fact.elements) +
         " and lookups(" + names.source + ", " + ReprText(fact.absent) + ") are <absent>";
}

std::string WriteCellEmpty(const Fact&, const GuardedNames& names) { return "is_empty(" + names.source + ")"; }

std::string WriteNull(const Fact&, const GuardedNames& names) { return "is_unbound(" + names.source + ")"; }

std::string WriteSameAs(const Fact&, const GuardedNames& names) { return names.source + " is " + names.other; }

std::string WriteDistinctFrom(const Fact&, const GuardedNames& names) {
  return names.source + " is not " + names.other;
}

std::string FoundType(const Fact&, BorrowedRef value) { return TypeText(value.type()); }

std::string FoundValue(const Fact&, BorrowedRef value) { return ReprText(value); }

std::string FoundLength(const Fact&, BorrowedRef value) { return std::to_string(RawLength(value)); }

// All keys of a short dict; else the first that is another.
std::string KeysText(const Fact& fact, const std::vector<Held>& keys) {
  if (keys.size() <= kShownElements) return ElementsText(keys);
  std::size_t same = 0;
  while (same < keys.size() && same < fact.elements.size() && MatchesElement(fact.elements[same], keys[same].get())) {
    ++same;
  }
  const std::string size = std::to_string(keys.size()) + " keys";
  return same < keys.size() ? size + ", number " + std::to_string(same) + " is " + ReprText(keys[same].get()) : size;
}

std::string FoundKeys(const Fact& fact, BorrowedRef value) {
  if (!PyDict_Check(value.get())) return TypeText(value.type());
  std::vector<Held> keys;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (PyDict_Next(value.get(), &position, &key, nullptr)) keys.emplace_back(key);
  return KeysText(fact, keys);
}

std::string FoundOwnNames(const Fact& fact, BorrowedRef value) {
  std::vector<Held> names;
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *unused = nullptr;
  while (frame_ops::NextInstanceAttr(value, &position, &name, &unused)) names.emplace_back(name);
  return KeysText(fact, names);
}

// ---- the rows

constexpr GuardKindRow kRows[] = {
    {.kind = GuardKind::kTypeIs,
     .name = "type_is",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kTypeOfObject,
     .record = RecordObject,
     .holds = HoldsTypeIs,
     .expression = WriteTypeIs,
     .found = FoundType},
    {.kind = GuardKind::kIdentity,
     .name = "identity",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kObject,
     .record = RecordObject,
     .holds = HoldsIdentity,
     .expression = WriteIdentity,
     .found = FoundValue},
    {.kind = GuardKind::kEquals,
     .name = "equals",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kObject,
     .record = RecordEqual,
     .holds = HoldsEquals,
     .expression = WriteEquals,
     .found = FoundValue},
    {.kind = GuardKind::kLength,
     .name = "length",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kLength,
     .holds = HoldsLength,
     .expression = WriteLength,
     .found = FoundLength},
    {.kind = GuardKind::kKeys,
     .name = "keys",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kOrderOfItems,
     .record = RecordElements,
     .holds = HoldsKeys,
     .expression = WriteElements,
     .found = FoundKeys},
    {.kind = GuardKind::kHasKey,
     .name = "has_key",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kItems,
     .record = RecordKey,
     .holds = HoldsHasKey,
     .expression = WriteHasKey},
    {.kind = GuardKind::kLacksKey,
     .name = "lacks_key",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kItems,
     .record = RecordAbsentKey,
     .holds = HoldsLacksKey,
     .expression = WriteLacksKey},
    {.kind = GuardKind::kLacksAttr,
     .name = "lacks_attr",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kAttributes,
     .record = RecordAbsentKey,
     .holds = HoldsLacksAttr,
     .expression = WriteLacksAttr},
    {.kind = GuardKind::kOwnNames,
     .name = "own_names",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kAttributes,
     .record = RecordElements,
     .holds = HoldsOwnNames,
     .expression = WriteOwnNames,
     .found = FoundOwnNames},
    {.kind = GuardKind::kSetEquals,
     .name = "set_equals",
     .scope = GuardScope::kValue,
     .record = RecordElements,
     .holds = HoldsSet,
     .expression = WriteElements},
    {.kind = GuardKind::kSetLayout,
     .name = "set_layout",
     .scope = GuardScope::kValue,
     .record = RecordSetLayout,
     .holds = HoldsSetLayout,
     .expression = WriteSetLayout},
    {.kind = GuardKind::kTypeLookup,
     .name = "type_lookup",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kClass,
     .record = RecordLookup,
     .holds = HoldsTypeLookup,
     .expression = WriteLookup},
    {.kind = GuardKind::kTypeLookups,
     .name = "type_lookups",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kClass,
     .record = RecordLookups,
     .holds = HoldsTypeLookups,
     .expression = WriteLookups},
    {.kind = GuardKind::kTensor, .name = "tensor", .scope = GuardScope::kTensor},
    {.kind = GuardKind::kCellEmpty,
     .name = "cell_empty",
     .scope = GuardScope::kValue,
     .holds = HoldsCellEmpty,
     .expression = WriteCellEmpty},
    {.kind = GuardKind::kGlobalState, .name = "global_state", .scope = GuardScope::kWhole},
    {.kind = GuardKind::kOverlap, .name = "overlap", .scope = GuardScope::kWhole},
    {.kind = GuardKind::kNull,
     .name = "null",
     .scope = GuardScope::kValue,
     .decided_by = DecidedBy::kObject,
     .holds = HoldsNull,
     .expression = WriteNull,
     .found = FoundValue},
    {.kind = GuardKind::kSameAs,
     .name = "same_as",
     .scope = GuardScope::kTwoValues,
     .holds_between = HoldsSameAs,
     .expression = WriteSameAs},
    {.kind = GuardKind::kDistinctFrom,
     .name = "distinct_from",
     .scope = GuardScope::kTwoValues,
     .holds_between = HoldsDistinctFrom,
     .expression = WriteDistinctFrom},
    {.kind = GuardKind::kDistinct, .name = "distinct", .scope = GuardScope::kWhole},
    {.kind = GuardKind::kValueOfTensors, .name = "value_of_tensors", .scope = GuardScope::kWhole},
};

constexpr bool RowsAreInOrder() {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].kind != static_cast<GuardKind>(i)) return false;
  }
  return std::size(kRows) == static_cast<std::size_t>(GuardKind::kValueOfTensors) + 1;
}
static_assert(RowsAreInOrder());

}  // namespace

const GuardKindRow& RowOf(GuardKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

absl::Span<const GuardKindRow> GuardKinds() { return kRows; }

}  // namespace framefuse
