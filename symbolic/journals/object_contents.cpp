// Lazy shadows, and reads of single items and attributes.

#include "symbolic/journals/object_contents.h"
#include "guards/made_reads.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "frame_eval/versions/dict_reads.h"
#include "frame_eval/versions/private_api.h"
#include "guards/dict_lookup.h"
#include "guards/read.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/kept_keys.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/symbols.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse {

// Fills the shadow with representatives and guards what C code could see of it: length, keys, items. A symbolic number
// among them is known by itself: who hands the shadow to code that looks at it pins the number (NativeArguments).
bool ObjectContents::Realise(Tracked& t, bool consume_leaves) {
  if (!t.has_shadow()) return true;
  if (t.appended_from >= 0) {  // appended items stand behind the original's
    Ref appended = Ref::Steal(PyList_GetSlice(t.representative, 0, PyList_GET_SIZE(t.representative.get())));
    PyList_SetSlice(t.representative, 0, PyList_GET_SIZE(t.representative.get()), nullptr);
    t.appended_from = -1;
    const bool done = RealiseItems(t);
    PyList_SetSlice(t.representative, PyList_GET_SIZE(t.representative.get()), PY_SSIZE_T_MAX, appended);
    t.replaced = true;
    return done;
  }
  if (!t.realised) {
    if (!RealiseItems(t)) return false;
  } else if (t.kind != TrackedKind::kTuple) {
    return true;
  }
  if (t.kind == TrackedKind::kTuple && consume_leaves) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t.representative.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(t.representative.get(), i);
      Ref index = Ref::Steal(PyLong_FromSsize_t(i));
      if (IsLeaf(item)) reads_.Move(ValueView(item, reads_.sources().Item(t.source, index)));
    }
  }
  return true;
}

namespace {

// An OrderedDict is filled by hashing again.
bool HasHashOfItsOwn(PyTypeObject* type) {
  return IsPythonClass(type) && type->tp_hash != NativeBase(type)->tp_hash;  // str for a StrEnum
}

bool AreAllHashesDifferent(PyObject* dict) {
  absl::flat_hash_set<Py_hash_t> seen;
  PyObject *key = nullptr, *value = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t position = 0; private_api::DictNext(dict, &position, &key, &value, &hash);) {
    if (!seen.insert(hash).second) return false;
  }
  return true;
}

// With the hash that the key has in `original`: its __hash__ ran when it was put there.
int CopyItem(PyObject* original, PyObject* shadow, PyObject* key, PyObject* own, PyObject* value,
             Py_ssize_t* position) {
  if (PyODict_Check(shadow)) return SetNativeItem(shadow, own, value) ? 0 : -1;
  PyObject *found, *unused;
  Py_hash_t hash = 0;
  if (!private_api::DictNext(original, position, &found, &unused, &hash) || found != key) {
    return PyDict_SetItem(shadow, own, value);
  }
  return private_api::DictSet(shadow, own, value, hash) ? 0 : -1;
}

}  // namespace

// What was written, or nothing, where it was deleted.
std::optional<Value> ObjectContents::Written(const OverlayWrite& w) {
  if (!w.value) return std::nullopt;
  return Value{w.value, kNoSource};
}

Value ObjectContents::AdoptItem(const Tracked& t, BorrowedRef item, BorrowedRef key) {
  Value v = objects_.Adopt(item, reads_.sources().Item(t.source, key));
  if (v) reads_.Move(v);
  return v;
}

namespace {
// As deque does it, whatever the class of the shadow has in its place.
bool AppendToDeque(BorrowedRef deque, BorrowedRef item) {
  auto* const type = reinterpret_cast<PyObject*>(DequeType());
  const Ref done = Ref::Steal(PyObject_CallMethod(type, "append", "OO", deque.get(), item.get()));
  return static_cast<bool>(done);
}
}  // namespace

bool ObjectContents::RealiseSequence(Tracked& t) {
  const Ref items = NativeItems(t.original);
  if (!items) return false;
  const Py_ssize_t size = PyList_GET_SIZE(items.get());
  reads_.AddLength(t.source, size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref index = Ref::Steal(PyLong_FromSsize_t(i));
    const Value v = AdoptItem(t, PyList_GET_ITEM(items.get(), i), index);
    if (!v) return false;
    if (t.kind == TrackedKind::kList) {
      if (PyList_Append(t.representative, v.object) < 0) return false;
      continue;
    }
    if (!AppendToDeque(t.representative, v.object)) return false;
  }
  return true;
}

// Of the items that a frame's *args came with.
bool ObjectContents::RealiseTuple(Tracked& t) {
  const Py_ssize_t size = PyTuple_GET_SIZE(t.original.get());
  reads_.AddLength(t.source, size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    Value v = objects_.Adopt(PyTuple_GET_ITEM(t.original.get(), i),
                             reads_.sources().Item(t.source, Ref::Steal(PyLong_FromSsize_t(i))));
    if (!v) return false;
    PyObject* own = PyTuple_GET_ITEM(t.representative.get(), i);
    PyTuple_SET_ITEM(t.representative.get(), i, v.object.release());
    Py_DECREF(own);
  }
  return true;
}

bool ObjectContents::GuardKeys(const Tracked& t, BorrowedRef items) {
  const bool hashed_again = PyODict_Check(t.original.get());
  const Ref keys = Ref::Steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 0);
    PyList_Append(keys, key);
    if (ObjectTable::Classify(key) == TrackedKind::kTensor) {
      if (objects_.FindByOriginal(key) != nullptr && IsTensorByAddress(key)) continue;
      return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a dict with tensors as keys that were not seen yet");
    }
    if (objects_.AdoptElement(key) && !(hashed_again && HasHashOfItsOwn(Py_TYPE(key)))) continue;
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                              absl::StrCat("a dict with a key of type ", Py_TYPE(key)->tp_name));
  }
  if (HoldsKeysThatCompare(t.original) && !AreAllHashesDifferent(t.original)) {  // the shadow would compare them
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a dict with keys that compare themselves to others");
  }
  reads_.AddGuard(t.source, GuardKind::kKeys, keys);
  return true;
}

bool ObjectContents::RealiseDict(Tracked& t) {
  PyObject* original = t.original;
  PyObject* shadow = t.representative;
  const Ref list = NativePairs(original);
  if (!list) return false;
  if (PyList_GET_SIZE(list.get()) != PyDict_GET_SIZE(original)) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "an OrderedDict that was changed as a dict");
  }
  if (!GuardKeys(t, list)) return false;
  Py_ssize_t position = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(list.get(), i);
    PyObject* key = PyTuple_GET_ITEM(pair, 0);
    const Tracked* tensor = ObjectTable::Classify(key) == TrackedKind::kTensor ? objects_.FindByOriginal(key) : nullptr;
    PyObject* own = tensor != nullptr ? tensor->representative.get() : key;
    const Value v = AdoptItem(t, PyTuple_GET_ITEM(pair, 1), key);
    if (!v || CopyItem(original, shadow, key, own, v.object, &position) < 0) return false;
  }
  for (OverlayWrite& w : t.writes) {
    const bool there = PyDict_Contains(shadow, w.key) > 0;
    if (there && (w.reinserted || !w.value) && !SetNativeItem(shadow, w.key, nullptr)) return false;
    if (w.value && !SetNativeItem(shadow, w.key, w.value)) return false;
  }
  if (!t.writes.empty()) t.replaced = true;
  t.writes.clear();
  return true;
}

bool ObjectContents::RealiseSet(Tracked& t) {
  const Ref items = NativeItems(t.original);
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (IsTensorByAddress(item)) {
      Value v = objects_.Adopt(item, reads_.ElementSource(item));
      if (!v || PyList_SetItem(items, i, v.object.release()) < 0) return false;
      continue;
    }
    if (objects_.AdoptElement(item)) continue;
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                              absl::StrCat("a set with an element of type ", Py_TYPE(item)->tp_name));
  }
  const bool plain = PyAnySet_CheckExact(t.original.get());
  const Ref expected = plain ? t.original : PlainCopy(t.original);
  if (!expected) return false;
  reads_.AddGuard(t.source, GuardKind::kSetEquals, expected);
  if (HoldsKeysThatCompare(t.original)) reads_.GuardSetLayout(t);  // it decides what is compared with what
  const Ref elements = Ref::Steal(PyList_AsTuple(items));
  const Ref copy = elements ? private_api::CopySetLayout(t.original.get(), elements) : Ref();
  if (!copy) return false;
  private_api::SwapSets(t.representative.get(), copy.get());
  return true;
}

Py_ssize_t ObjectContents::BreakLength(std::string_view context) {
  return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, context) ? 0 : -1;
}

Py_ssize_t ObjectContents::GuardOwnNames(const Tracked& instance) {
  PyObject* dict = frame_ops::RawInstanceDict(instance.original);
  if (dict != nullptr && !PyDict_CheckExact(dict)) {
    return BreakLength(absl::StrCat("a __dict__ of type ", Py_TYPE(dict)->tp_name));
  }
  const Ref names = Ref::Steal(PyList_New(0));
  PyObject *name = nullptr, *unused = nullptr;
  Py_ssize_t position = 0;
  while (frame_ops::NextInstanceAttr(instance.original, &position, &name, &unused)) {
    if (!PyUnicode_CheckExact(name)) {
      return BreakLength("an object with attributes that are no strings");
    }
    PyList_Append(names, name);
  }
  reads_.AddGuard(instance.source, GuardKind::kOwnNames, names);
  return PyList_GET_SIZE(names.get());
}

// What the frame has written to the attributes stands where the object would have it.
bool ObjectContents::RealiseInstanceDict(Tracked& t) {
  Tracked& owner = *t.owner;
  if (GuardOwnNames(owner) < 0) return false;
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (frame_ops::NextInstanceAttr(owner.original, &position, &name, &value)) {
    const OverlayWrite* written = owner.FindWrite(name);
    if (written != nullptr && (!written->value || written->reinserted)) continue;
    Value v = written != nullptr ? Value{written->value, kNoSource}
                                 : objects_.Adopt(value, reads_.sources().InstanceAttr(owner.source, name));
    if (!v) return false;
    reads_.Move(v);
    if (PyDict_SetItem(t.representative, name, v.object) < 0) return false;
  }
  for (const OverlayWrite& w : owner.writes) {
    if (w.value && PyUnicode_Check(w.key.get()) && PyDict_SetItem(t.representative, w.key, w.value) < 0) return false;
  }
  return true;
}

bool ObjectContents::RealiseItems(Tracked& t) {
  t.realised = true;
  if (t.kind == TrackedKind::kDict) {
    return RealiseDict(t);
  }
  if (t.kind == TrackedKind::kSet) {
    return RealiseSet(t);
  }
  if (t.kind == TrackedKind::kList || t.kind == TrackedKind::kDeque) {
    return RealiseSequence(t);
  }
  if (t.kind == TrackedKind::kTuple) {
    return RealiseTuple(t);
  }
  if (t.kind == TrackedKind::kInstanceDict) {
    return RealiseInstanceDict(t);
  }
  return true;
}

bool ObjectContents::PrepareTarget(BorrowedRef container) {
  Tracked* t = objects_.Find(container);
  if (t == nullptr) return true;
  PinKeys(reads_, container);
  return Realise(*t, true) && writes_.Replace(*t);
}

Ref ObjectContents::SymbolicLength(const Tracked& t) const {
  if (!t.is_container() || t.realised || t.source == kNoSource) return Ref();
  if (t.appended_from >= 0) return symbols_.LengthAt(t.original, t.source, RawLength(t.representative));
  return t.mutated() ? Ref() : symbols_.LengthAt(t.original, t.source, 0);
}

std::int64_t ObjectContents::Length(Tracked& t) {
  if (!t.has_shadow()) return -1;
  if (t.kind == TrackedKind::kInstanceDict && !t.realised && !t.owner->mutated()) return GuardOwnNames(*t.owner);
  if (!t.realised && t.is_container() && !t.mutated()) {
    const Py_ssize_t size = RawLength(t.original);
    reads_.AddLength(t.source, size);
    return size;
  }
  return t.realised || Realise(t, true) ? RawLength(t.representative) : -1;
}

std::optional<Value> ObjectContents::DictItem(Tracked& t, ValueView key) {
  reads_.Consume(key);
  if (t.kind == TrackedKind::kInstanceDict) {
    if (!PyUnicode_CheckExact(key.object.get())) {
      if (GuardOwnNames(*t.owner) < 0) return Value();
      return std::nullopt;  // all of them are strings
    }
    return OwnAttribute(*t.owner, key.object);
  }
  if (t.realised) {
    PinKeys(reads_, t.representative);
    PyObject* found = PyDict_GetItemWithError(t.representative, key.object);
    if (found == nullptr && PyErr_Occurred() == nullptr) return std::nullopt;
    return Value{Ref::Create(found), kNoSource};
  }
  if (const OverlayWrite* w = t.FindWrite(key.object)) return Written(*w);
  PyObject* found = PyDict_GetItemWithError(t.original, key.object);
  if (found == nullptr) {
    if (PyErr_Occurred() != nullptr) return Value();
    if (!reads_.GuardLacksKey(t.source, key.object)) return Value();
    return std::nullopt;
  }
  return objects_.Adopt(found, reads_.sources().Item(t.source, key.object));
}

// A tensor is found by its address. Nothing: what is not there only all keys can tell.
std::optional<Value> ObjectContents::ItemOfTensor(Tracked& t, BorrowedRef key) {
  if (t.kind != TrackedKind::kDict || t.realised) return std::nullopt;
  if (const OverlayWrite* w = t.FindWrite(key)) return Written(*w);
  const Tracked* tensor = objects_.Find(key);
  if (tensor == nullptr || tensor->source == kNoSource || !IsTensorByAddress(tensor->original)) {
    return std::nullopt;
  }
  PyObject* found = nullptr;
  if (FindInDict(t.original, DictKey(tensor->original), &found) != Lookup::kFound) return std::nullopt;
  reads_.AddGuard(tensor->source, GuardKind::kIdentity, tensor->original);
  return objects_.Adopt(found, reads_.sources().Item(t.source, tensor->original));
}

bool ObjectContents::HasNative(const Tracked& t, const char* method) {
  if (t.attributes == nullptr) return true;
  const BorrowedRef found = reads_.LookupInType(t.original.type(), method);
  return found && (found.type() == &PyWrapperDescr_Type || found.type() == &PyMethodDescr_Type);
}

// What is not there raises KeyError.
bool ObjectContents::IsPlainDict(const Tracked& t) {
  if (t.attributes == nullptr) return PyDict_CheckExact(t.original.get());
  PyTypeObject* type = t.original.type();
  return NativeBase(type) == &PyDict_Type && !reads_.LookupInType(type, "__missing__");
}

// Without a look at the other items: an index into a list or tuple from outside, a key of a dict.
std::optional<Value> ObjectContents::OneItem(Tracked& t, ValueView key) {
  PyObject* k = key.object;
  if (t.kind == TrackedKind::kList && !t.realised && t.appended_from >= 0 && PyLong_CheckExact(k)) {
    // From the end, among what was appended: how many stand before it does not matter.
    const Py_ssize_t size = PyList_GET_SIZE(t.representative.get());
    int overflow = 0;
    const long index = PyLong_AsLongAndOverflow(k, &overflow);
    if (overflow != 0 || index >= 0 || index < -size) return std::nullopt;
    return Value{Ref::Create(PyList_GET_ITEM(t.representative.get(), size + index)), kNoSource};
  }
  const bool untouched_list = t.kind == TrackedKind::kList && !t.realised && t.appended_from < 0;
  if ((untouched_list || t.kind == TrackedKind::kTuple) && PyLong_CheckExact(k)) {
    PyObject* sequence = untouched_list ? t.original.get() : t.representative.get();
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
    Py_ssize_t index = PyLong_AsSsize_t(k);
    if (index == -1 && PyErr_Occurred() != nullptr) {  // too large an index: what looks next raises
      PyErr_Clear();
      return std::nullopt;
    }
    if (index < 0) {
      if (untouched_list || !t.realised) reads_.AddLength(t.source, size);
      index += size;
    }
    if (index < 0 || index >= size) return std::nullopt;
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, index);
    const Ref number = Ref::Steal(PyLong_FromSsize_t(index));
    if (untouched_list || !t.realised) return objects_.Adopt(item, reads_.sources().Item(t.source, number));
    return Value{Ref::Create(item), IsLeaf(item) ? reads_.sources().Item(t.source, number) : kNoSource};
  }
  if (t.kind == TrackedKind::kInstanceDict || (t.kind == TrackedKind::kDict && !t.realised)) {
    std::optional<Value> found = DictItem(t, key);
    if (found || (t.kind == TrackedKind::kDict && !IsPlainDict(t))) return found;
    PyErr_SetObject(PyExc_KeyError, k);
    return Value();
  }
  return std::nullopt;
}

bool ObjectContents::WriteDictItem(Tracked& t, ValueView key, ValueView value) {
  reads_.Consume(key);
  if (value.object) reads_.Move(value);
  if (t.kind == TrackedKind::kInstanceDict) {
    if (!PyUnicode_CheckExact(key.object.get())) {
      return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite,
                                "a key that is no string in the __dict__ of an object");
    }
    return writes_.Write(*t.owner, key.object, Ref::Create(value.object));
  }
  if (!t.realised) {
    return writes_.Write(t, key.object, Ref::Create(value.object));
  }
  PinKeys(reads_, t.representative);
  if (!writes_.Replace(t)) return false;
  return SetNativeItem(t.representative, key.object, value.object);
}

std::optional<Value> ObjectContents::InCell(Tracked& cell) {
  if (const OverlayWrite* w = cell.FindWrite(nullptr)) return Written(*w);
  PyObject* contents = PyCell_GET(cell.original.get());
  if (contents == nullptr) {
    reads_.AddGuard(cell.source, GuardKind::kCellEmpty, nullptr);
    return std::nullopt;
  }
  return objects_.Adopt(contents, reads_.sources().Intern(SourceKind::kCellContents, cell.source, 0, nullptr));
}

Tracked* ObjectContents::ThreadDictOf(const Tracked& local) {
  const Ref dict = ThreadDict(local.original);
  if (!dict) {
    (void)breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a threading.local without attributes");
    return nullptr;
  }
  const Value held = objects_.Adopt(dict, reads_.sources().Intern(SourceKind::kThreadDict, local.source, 0, nullptr));
  return held ? objects_.Find(held.object) : nullptr;
}

std::optional<Value> ObjectContents::OwnAttribute(Tracked& object, BorrowedRef name) {
  Tracked& instance = object.holder_of_attributes();
  if (IsThreadLocal(instance.original.type())) {
    Tracked* const dict = ThreadDictOf(instance);
    return dict != nullptr ? DictItem(*dict, ValueView(name, kNoSource)) : Value();
  }
  if (const OverlayWrite* w = instance.FindWrite(name)) return Written(*w);
  PyObject* found = frame_ops::RawInstanceAttr(instance.original, name);
  if (found == nullptr) {
    PyObject* dict = frame_ops::RawInstanceDict(instance.original);
    PyObject* item = nullptr;
    if (dict != nullptr && !frame_ops::HasOnlyStringKeys(dict) &&
        FindInDict(dict, DictKey(name), &item) != Lookup::kAbsent) {
      return breaks_.Break(GraphBreakKind::kOpaqueObject, "an object with attributes that are no strings");
    }
    if (frame_ops::HasInstanceAttrs(instance.original)) reads_.AddGuard(instance.source, GuardKind::kLacksAttr, name);
    return std::nullopt;
  }
  if (instance.drawn) return breaks_.Break(GraphBreakKind::kRandomState, "an attribute of a generator that drew");
  return objects_.Adopt(found, reads_.sources().InstanceAttr(instance.source, name));
}

}  // namespace framefuse
