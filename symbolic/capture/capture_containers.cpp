// Tracked containers: lazy shadows, reads by key, and making arguments of C code safe to read.

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/private_api.h"
#include "guards/read.h"
#include "symbolic/capture/builtin_types.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {
namespace {

// Builtins that capture steps over itself: called by C code they would read and write the originals.
bool SeesPastCapture(BorrowedRef callable) {
  const CallRule* rule = FindCallRule(callable);
  if (rule == nullptr || rule->kind != CallRule::Kind::kSpecial) return false;
  switch (rule->special) {
    case SpecialCall::kGetAttr:
    case SpecialCall::kHasAttr:
    case SpecialCall::kSetAttr:
    case SpecialCall::kDelAttr:
    case SpecialCall::kNext:
    case SpecialCall::kVars:
    case SpecialCall::kId:
    case SpecialCall::kHash:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Fills the shadow with representatives and guards what C code could see of it: length, keys, items.
void Capture::Realise(Tracked& t, bool consume_leaves) {
  if (!t.is_container() || breaks_.unwinding()) return;
  if (t.appended_from >= 0) {  // appended items stand behind the original's
    Ref appended = Ref::Steal(PyList_GetSlice(t.representative, 0, PyList_GET_SIZE(t.representative.get())));
    PyList_SetSlice(t.representative, 0, PyList_GET_SIZE(t.representative.get()), nullptr);
    t.appended_from = -1;
    RealiseItems(t);
    PyList_SetSlice(t.representative, PyList_GET_SIZE(t.representative.get()), PY_SSIZE_T_MAX, appended);
    t.replaced = true;
    return;
  }
  if (!t.realised) {
    RealiseItems(t);
    if (breaks_.unwinding()) return;
  } else if (t.kind != TrackedKind::kTuple) {
    return;
  }
  if (t.kind == TrackedKind::kTuple && consume_leaves) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t.representative.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(t.representative.get(), i);
      Ref index = Ref::Steal(PyLong_FromSsize_t(i));
      if (IsLeaf(item)) reads_.Consume(ValueView(item, reads_.sources().Item(t.source, index)));
    }
  }
}

namespace {

// Keys with __eq__ of their own: a look-up may run it on the very objects. An OrderedDict is filled by hashing again.
bool KeysRunCode(PyObject* keys, bool hashed_again) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); ++i) {
    PyTypeObject* type = Py_TYPE(PyList_GET_ITEM(keys, i));
    if (!IsPythonClass(type)) continue;
    const PyTypeObject* base = NativeBase(type);  // str for a StrEnum
    if (type->tp_richcompare != base->tp_richcompare) return true;
    if (hashed_again && type->tp_hash != base->tp_hash) return true;
  }
  return false;
}

// With the hash that the key has in `original`: its __hash__ ran when it was put there.
int CopyItem(PyObject* original, PyObject* shadow, PyObject* key, PyObject* value, Py_ssize_t* position) {
  if (PyODict_Check(shadow)) return PyObject_SetItem(shadow, key, value);
  PyObject *found, *unused;
  Py_hash_t hash = 0;
  if (!private_api::DictNext(original, position, &found, &unused, &hash) || found != key) {
    return PyObject_SetItem(shadow, key, value);
  }
  return private_api::DictSet(shadow, key, value, hash) ? 0 : -1;
}

}  // namespace

Value Capture::AdoptItem(const Tracked& t, BorrowedRef item, BorrowedRef key) {
  Value v = Adopt(item, reads_.sources().Item(t.source, key));
  if (v) reads_.Consume(v);
  return v;
}

void Capture::RealiseSequence(Tracked& t) {
  const Ref items = Ref::Steal(PySequence_List(t.original));
  if (!items) return;
  const Py_ssize_t size = PyList_GET_SIZE(items.get());
  reads_.AddLength(t.source, size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref index = Ref::Steal(PyLong_FromSsize_t(i));
    const Value v = AdoptItem(t, PyList_GET_ITEM(items.get(), i), index);
    if (!v) return;
    if (t.kind == TrackedKind::kList) {
      if (PyList_Append(t.representative, v.object) < 0) return;
      continue;
    }
    const Ref appended = CallMethodWith(t.representative, "append", v.object);
    if (!appended) return;
  }
}

// Of the items that a frame's *args came with.
void Capture::RealiseTuple(Tracked& t) {
  const Py_ssize_t size = PyTuple_GET_SIZE(t.original.get());
  reads_.AddLength(t.source, size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    Value v = Adopt(PyTuple_GET_ITEM(t.original.get(), i),
                    reads_.sources().Item(t.source, Ref::Steal(PyLong_FromSsize_t(i))));
    if (!v) return;
    PyObject* own = PyTuple_GET_ITEM(t.representative.get(), i);
    PyTuple_SET_ITEM(t.representative.get(), i, v.object.release());
    Py_DECREF(own);
  }
}

bool Capture::GuardKeys(const Tracked& t, BorrowedRef items) {
  const Ref keys = Ref::Steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(PyList_GET_ITEM(items.get(), i), 0);
    if (!IsLeaf(key) && !PyType_Check(key) && !PyFunction_Check(key)) {
      const TrackedKind kind = Classify(key);
      if (kind == TrackedKind::kTensor)
        return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a dict with tensors as keys");
      if (!PyTuple_CheckExact(key) && kind != TrackedKind::kInstance) {
        return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                  absl::StrCat("a dict with a key of type ", Py_TYPE(key)->tp_name));
      }
    }
    PyList_Append(keys, key);
  }
  if (KeysRunCode(keys, PyODict_Check(t.original.get()))) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "a dict whose keys have an __eq__ of their own");
  }
  reads_.AddGuard(t.source, GuardKind::kKeys, keys);
  return true;
}

void Capture::RealiseDict(Tracked& t) {
  PyObject* original = t.original;
  PyObject* shadow = t.representative;
  // PyDict_Next walks an OrderedDict in insertion order of the table, not in its own order.
  const Ref items = Ref::Steal(PyODict_CheckExact(original) ? PyObject_CallMethod(original, "items", nullptr)
                                                            : PyDict_Items(original));
  const Ref list = items ? Ref::Steal(PySequence_List(items)) : Ref();
  if (!list) return;
  if (PyList_GET_SIZE(list.get()) != PyDict_GET_SIZE(original)) {
    breaks_.Break(GraphBreakKind::kOpaqueObject, "an OrderedDict that was changed as a dict");
    return;
  }
  if (!GuardKeys(t, list)) return;
  Py_ssize_t position = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(list.get(), i);
    const Value v = AdoptItem(t, PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0));
    if (!v || CopyItem(original, shadow, PyTuple_GET_ITEM(pair, 0), v.object, &position) < 0) return;
  }
  for (OverlayWrite& w : t.writes) {
    const bool there = PyDict_Contains(shadow, w.key) > 0;
    if (there && (w.reinserted || !w.value) && PyObject_DelItem(shadow, w.key) < 0) return;
    if (w.value && PyObject_SetItem(shadow, w.key, w.value) < 0) return;
  }
  if (!t.writes.empty()) t.replaced = true;
  t.writes.clear();
}

void Capture::RealiseSet(Tracked& t) {
  const Ref items = Ref::Steal(PySequence_List(t.original));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    if (!IsLeaf(PyList_GET_ITEM(items.get(), i))) {
      breaks_.Break(GraphBreakKind::kOpaqueObject, "a set of objects hashed by address");
      return;
    }
  }
  reads_.AddGuard(t.source, GuardKind::kSetEquals, t.original);
  // A copy keeps the original's iteration order; adding one by one may not.
  const Ref copy = Ref::Steal(PyObject_CallMethod(t.original, "copy", nullptr));
  if (copy) CallMethodWith(t.representative, "update", copy);
}

void Capture::RealiseItems(Tracked& t) {
  t.realised = true;
  if (t.kind == TrackedKind::kDict) {
    RealiseDict(t);
  } else if (t.kind == TrackedKind::kSet) {
    RealiseSet(t);
  } else if (t.kind == TrackedKind::kList || t.kind == TrackedKind::kDeque) {
    RealiseSequence(t);
  } else if (t.kind == TrackedKind::kTuple) {
    RealiseTuple(t);
  }
}

bool Capture::MarkReplaced(Tracked& t) {
  if (!t.is_container()) return true;
  if (!BeforeReplacing(t)) return false;
  t.replaced = true;
  return true;
}

bool Capture::PrepareTarget(BorrowedRef container) {
  Tracked* t = tracked_.Find(container);
  if (t == nullptr) return true;
  Realise(*t, true);
  if (breaks_.unwinding()) return false;
  return MarkReplaced(*t);
}

bool Capture::AppendUnread(Tracked& list, BorrowedRef item) {
  ++writes_;
  if (list.appended_from < 0) list.appended_from = 0;
  return PyList_Append(list.representative, item) == 0;
}

std::int64_t Capture::TrackedLength(Tracked& t) {
  if (!t.is_container()) return -1;
  if (!t.realised && !t.mutated()) {
    const Py_ssize_t size = PyObject_Size(t.original);
    reads_.AddLength(t.source, size);
    return size;
  }
  if (!t.realised) Realise(t, true);
  return PyObject_Size(t.representative);
}

Value Capture::TrackedDictGet(Tracked& t, ValueView key) {
  reads_.Consume(key);
  if (t.kind == TrackedKind::kInstanceDict) {
    if (!PyUnicode_CheckExact(key.object.get())) return Value();
    return RawInstanceGet(*t.owner, key.object);
  }
  if (t.realised) {
    PyObject* found = PyDict_GetItemWithError(t.representative, key.object);
    return Value{Ref::Create(found), kNoSource};
  }
  if (OverlayWrite* w = t.FindWrite(key.object)) return Value{w->value, kNoSource};
  PyObject* found = PyDict_GetItemWithError(t.original, key.object);
  if (found == nullptr) {
    if (!PyErr_Occurred()) reads_.AddGuard(t.source, GuardKind::kLacksKey, key.object);
    return Value();
  }
  return Adopt(found, reads_.sources().Item(t.source, key.object));
}

Tracked* Capture::InstanceDictOf(Tracked& instance) {
  if (instance.dict != nullptr) return instance.dict;
  Ref original = Ref::Create(frame_ops::RawInstanceDict(instance.original));
  Tracked* dict = tracked_.Add(TrackedKind::kInstanceDict, kNoSource, original, Ref::Steal(PyDict_New()));
  dict->owner = &instance;
  instance.dict = dict;
  return dict;
}

// ---------------------------------------------------------------- arguments of C code

bool Capture::PrepareNative(ValueView v, bool allow_instances) {
  if (v.source != kNoSource) reads_.Consume(v);
  return PrepareNative(v.object, allow_instances);
}

namespace {
// An iterator of C code that walks containers itself; a generator's frame is evaluated.
bool IsNativeIterator(BorrowedRef object) {
  PyTypeObject* type = object.type();
  return type->tp_iternext != nullptr && type->tp_traverse != nullptr && !IsPythonClass(type) &&
         !PyGen_CheckExact(object.get()) && !PyCoro_CheckExact(object.get()) && !PyAsyncGen_CheckExact(object.get());
}

bool IsTupleOfLeaves(BorrowedRef tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    if (!IsLeaf(PyTuple_GET_ITEM(tuple.get(), i))) return false;
  }
  return true;
}

std::vector<PyObject*> ReferentsOf(BorrowedRef object) {
  std::vector<PyObject*> referents;
  object.type()->tp_traverse(
      object,
      [](PyObject* child, void* into) {
        static_cast<std::vector<PyObject*>*>(into)->push_back(child);
        return 0;
      },
      &referents);
  return referents;
}
}  // namespace

bool Capture::PrepareOuter(ValueView v) {
  PyObject* o = v.object;
  Tracked* t = tracked_.Find(v.object);
  if (t == nullptr && (PyDictValues_Check(o) || PyDictItems_Check(o))) {
    return PrepareOuter(ValueView(private_api::DictOfView(o), kNoSource));
  }
  if (t == nullptr && IsNativeIterator(v.object)) return true;
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o) && !PyDict_CheckExact(o)) return PrepareNative(v);
  if (t == nullptr) return true;
  if (!t->is_container()) return PrepareNative(v);
  Realise(*t, true);
  return !breaks_.unwinding();
}

bool Capture::PrepareAll(absl::Span<const ValueView> values, bool allow_instances) {
  for (const ValueView& v : values) {
    if (!PrepareNative(v, allow_instances)) return false;
  }
  return true;
}

bool Capture::PrepareNative(BorrowedRef object, bool allow_instances) {
  // Whether so long a number may become text is a setting of the interpreter (sys.set_int_max_str_digits).
  constexpr std::size_t kBitsOfAnySetting = 2126;  // 640 digits
  if (IsLeaf(object)) {
    if (!PyLong_CheckExact(object.get()) || private_api::BitCount(object) <= kBitsOfAnySetting) return true;
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a number of more than 640 digits");
  }
  if (IsFakeTensor(object)) return true;
  PyObject* o = object;
  Tracked* t = tracked_.Find(object);
  if (t != nullptr) {
    switch (t->kind) {
      case TrackedKind::kFunction:
        t->compared = true;
        return true;
      case TrackedKind::kModule:
      case TrackedKind::kType:
      case TrackedKind::kCell:
        return true;
      case TrackedKind::kCallable:
        // Called from C code it would act on its original self.
        if (PyCFunction_Check(o) && DescriptorOfBoundMethod(o) != nullptr) {
          return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code calls a bound C method from outside");
        }
        // Its text is made of its parts' attributes.
        if (PyMethod_Check(o) && (!allow_instances || !PyFunction_Check(PyMethod_GET_FUNCTION(o)))) {
          return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a bound method from outside");
        }
        if (SeesPastCapture(object)) {
          return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat("C code calls ", DescribeCallable(o)));
        }
        return true;
      case TrackedKind::kInstance:
        // A namespace's own repr and comparison read its attributes.
        if (!allow_instances || NativeBase(Py_TYPE(o)) != &PyBaseObject_Type) {
          return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                    absl::StrCat("C code reads an object of type ", Py_TYPE(o)->tp_name));
        }
        t->compared = true;
        return reads_.GuardProtocolMethods(Py_TYPE(o));
      case TrackedKind::kInstanceDict:
        return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads the __dict__ of an object");
      case TrackedKind::kOpaque:
        if (Py_TYPE(o) == AutogradEngineType() || IsRangeOrSlice(object)) return true;
        if (t->source != kNoSource && IsStructSequenceType(Py_TYPE(o)) && IsTupleOfLeaves(object)) {
          reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
          return true;
        }
        if (t->source != kNoSource && IsNumberOrTextEnum(Py_TYPE(o)) && reads_.GuardProtocolMethods(Py_TYPE(o))) {
          reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
          return true;
        }
        if (breaks_.unwinding()) return false;
        return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                  absl::StrCat("C code reads an object of type ", Py_TYPE(o)->tp_name));
      default:
        Realise(*t, true);
        if (breaks_.unwinding()) return false;
        break;
    }
  }
  // What holds itself is in preparation already.
  if (!preparing_.insert(o).second) return true;
  const bool done = PrepareContents(object, t != nullptr, allow_instances);
  preparing_.erase(o);
  return done;
}

bool Capture::PrepareContents(BorrowedRef object, bool tracked, bool allow_instances) {
  PyObject* o = object;
  if (PyTuple_Check(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
      if (!PrepareNative(BorrowedRef(PyTuple_GET_ITEM(o, i)), allow_instances)) return false;
    }
  } else if (PyList_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) {
      if (!PrepareNative(BorrowedRef(PyList_GET_ITEM(o, i)), allow_instances)) return false;
    }
  } else if (PyDict_Check(o)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) {
      if (!PrepareNative(BorrowedRef(value), allow_instances)) return false;
    }
  } else if (!tracked && (PyDictValues_Check(o) || PyDictItems_Check(o))) {
    return PrepareNative(private_api::DictOfView(o), allow_instances);
  } else if (!tracked && IsNativeIterator(object)) {
    for (PyObject* part : ReferentsOf(object)) {
      if (!PrepareNative(BorrowedRef(part), allow_instances)) return false;
    }
  } else if (!tracked && (Py_TYPE(o) == AttrGetterType() || Py_TYPE(o) == MethodCallerType())) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat("C code calls ", Py_TYPE(o)->tp_name));
  } else if (!tracked && PyMethod_Check(o)) {
    return PrepareNative(BorrowedRef(PyMethod_GET_FUNCTION(o)), allow_instances) &&
           PrepareNative(BorrowedRef(PyMethod_GET_SELF(o)), allow_instances);
  } else if (!tracked && Py_TYPE(o) == PartialType()) {
    for (const char* name : {"func", "args", "keywords"}) {
      Ref part = Ref::Steal(PyObject_GetAttrString(o, name));
      if (!part || !PrepareNative(BorrowedRef(part), allow_instances)) return false;
    }
  } else if (!tracked && Py_TYPE(o) == SimpleNamespaceType()) {
    Ref attributes = Ref::Steal(PyObject_GenericGetDict(o, nullptr));
    return attributes && PrepareNative(BorrowedRef(attributes), allow_instances);
  } else if (!tracked && IsPythonClass(Py_TYPE(o)) && !PyType_Check(o)) {
    if (!allow_instances) {
      return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                absl::StrCat("C code reads an object of type ", Py_TYPE(o)->tp_name));
    }
    return reads_.GuardProtocolMethods(Py_TYPE(o));
  }
  return true;
}

}  // namespace framefuse
