// The reads journal: adopting objects, consuming leaves, guards on types and their look-ups.

#include <algorithm>
#include <cmath>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "guards/held.h"
#include "guards/read.h"
#include "symbolic/capture/builtin_types.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"

namespace framefuse {
namespace {

bool IsExactDict(BorrowedRef o) { return PyDict_CheckExact(o.get()) || PyODict_CheckExact(o.get()); }

// Instances whose attributes are read the generic way and that have no C state of their own.
bool HasGenericLayout(PyTypeObject* type) {
  PyTypeObject* base = NativeBase(type);
  return base == SimpleNamespaceType() || (IsPythonClass(type) && base == &PyBaseObject_Type);
}

// Sources at which a whole function object stays put from call to call.
bool IsStableSource(SourceKind kind) {
  return kind == SourceKind::kTypeAttr || kind == SourceKind::kModuleAttr || kind == SourceKind::kConstant;
}

}  // namespace

// An instruction asks several times.
const UserLocation& Capture::Here() {
  static const auto* nowhere = new UserLocation();
  if (top_ == nullptr) return *nowhere;
  const std::pair<PyCodeObject*, int> place(frame_ops::Code(top_->frame), top_->instruction);
  if (here_.code && place == here_place_) return here_;
  here_place_ = place;
  here_ = UserLocation{RefOf<PyCodeObject>::Create(place.first), LineOf(place.first, place.second)};
  return here_;
}

bool Capture::IsNewsOfLeaf(SourceId source, LeafFact fact) {
  const auto i = static_cast<std::size_t>(source);
  if (i >= leaf_facts_.size()) leaf_facts_.resize(std::max<std::size_t>(2 * i, 1024));
  const bool news = (leaf_facts_[i] & fact) == 0;
  leaf_facts_[i] |= fact;
  return news;
}

SourceId Capture::ConstantSource(BorrowedRef object) {
  return sources_.Intern(SourceKind::kConstant, kNoSource, 0, object);
}

void Capture::AddGuard(SourceId source, GuardKind kind, BorrowedRef expected, int aux) {
  if (!classes_.empty()) {
    const std::optional<SourceId> rebased = classes_.Rebase(source);
    if (!rebased || classes_.IsMade(expected)) return;  // what was there before cannot be, or hold, such a class
    source = *rebased;
  }
  guards_.Add(source, kind, expected, Here(), aux);
}

namespace {
bool IsNotANumber(PyObject* o) {
  if (PyFloat_Check(o)) return std::isnan(PyFloat_AS_DOUBLE(o));
  if (!PyComplex_Check(o)) return false;
  const Py_complex value = PyComplex_AsCComplex(o);
  return std::isnan(value.real) || std::isnan(value.imag);
}
}  // namespace

void Capture::Consume(ValueView v) {
  if (v.source == kNoSource || !IsLeaf(v.object) || !MayReadInBackward(v.source)) return;
  if (sources_[v.source].kind == SourceKind::kConstant || !IsNewsOfLeaf(v.source, kConsumed)) return;
  PyObject* o = v.object;
  const bool singleton = o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || PyCode_Check(o);
  // Containers look whether it is the same object first, and another NaN is equal to none.
  AddGuard(v.source, singleton || IsNotANumber(o) ? GuardKind::kIdentity : GuardKind::kEquals, v.object);
  if (!singleton) consumed_leaves_[o].push_back(v.source);
}

TrackedKind Capture::Classify(BorrowedRef o) const {
  PyTypeObject* type = o.type();
  if (IsTensor(o)) return TrackedKind::kTensor;
  if (type == &PyFunction_Type) return TrackedKind::kFunction;
  if (PyList_CheckExact(o.get())) return TrackedKind::kList;
  if (IsExactDict(o) || type == DefaultDictType()) return TrackedKind::kDict;
  if (PyTuple_Check(o.get())) {
    const bool plain = PyTuple_CheckExact(o.get()) || (type->tp_dictoffset == 0 && !IsStructSequenceType(type));
    return plain ? TrackedKind::kTuple : TrackedKind::kOpaque;
  }
  if (PyAnySet_CheckExact(o.get())) return TrackedKind::kSet;
  if (type == DequeType()) return TrackedKind::kDeque;
  if (PyCell_Check(o.get())) return TrackedKind::kCell;
  if (PyModule_Check(o.get())) return TrackedKind::kModule;
  if (PyType_Check(o.get())) return TrackedKind::kType;
  if (PyCFunction_Check(o.get()) || PyMethod_Check(o.get()) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type || type == &PyProperty_Type ||
      type == &PyStaticMethod_Type || type == &PyClassMethod_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == PartialType() || type == LruCacheType() || type == ItemGetterType()) {
    return TrackedKind::kCallable;
  }
  if (PyWeakref_CheckRefExact(o.get()) || IsRegularExpression(o)) return TrackedKind::kCallable;
  return HasGenericLayout(type) ? TrackedKind::kInstance : TrackedKind::kOpaque;
}

namespace {
// Its names are read and written as globals and as attributes, too, past what is done to the dict.
bool IsNamespaceOfModule(BorrowedRef dict) {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  PyObject* name = PyDict_GetItemWithError(dict, key);
  if (name == nullptr || !PyUnicode_CheckExact(name)) return false;
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  return module != nullptr && PyModule_Check(module) && PyModule_GetDict(module) == dict.get();
}
}  // namespace

Value Capture::Adopt(BorrowedRef original, SourceId source) {
  if (!classes_.empty()) {
    const std::optional<SourceId> rebased = classes_.Rebase(source);
    if (!rebased) return Value{Ref::Create(original), kNoSource};
    source = *rebased;
  }
  if (IsLeaf(original)) {
    // That it is there is a fact even if its value never matters.
    const bool can_be_absent = source != kNoSource && sources_[source].base != kNoSource;
    if (can_be_absent && IsNewsOfLeaf(source, kRead)) read_leaves_.push_back(source);
    if (IsNumpyNumberType(original.type())) numpy_errors_.Raise();
    return Value{Ref::Create(original), source};
  }
  Tracked* known = tracked_.FindByOriginal(original);
  if (known == nullptr) known = tracked_.Find(original);  // already a representative
  if (known != nullptr) {
    if (known->source != source && source != kNoSource) {
      AddGuard(source, GuardKind::kSameAs, nullptr, known->source);
    }
    return Value{Ref::Create(known->representative), known->source};
  }
  const TrackedKind kind = Classify(original);
  if (IsDictOfInstance(kind, original)) {
    return Break(GraphBreakKind::kOpaqueObject, "the __dict__ of an object that is used, too");
  }
  if (kind == TrackedKind::kDict && IsNamespaceOfModule(original)) {
    return Break(GraphBreakKind::kOpaqueObject, "the __dict__ of a module");
  }
  GuardObject(kind, original, source);
  switch (kind) {
    case TrackedKind::kTensor:
      return AdoptTensor(original, source);
    case TrackedKind::kList:
    case TrackedKind::kTuple:
    case TrackedKind::kDict:
    case TrackedKind::kSet:
    case TrackedKind::kDeque:
      return AdoptContainer(kind, original, source);
    default:
      return AdoptObject(kind, original, source);
  }
}

// Whether one of two, a dict and an object whose attributes it holds, or two such objects, is adopted and the other
// was: writes to one are seen in the other.
bool Capture::IsDictOfInstance(TrackedKind kind, BorrowedRef original) {
  if (kind == TrackedKind::kDict) {
    const auto is_globals = [&](Activation* act) { return GlobalsOf(*act).get() == original.get(); };
    return instance_dicts_.contains(original.get()) || absl::c_any_of(frames_, is_globals);
  }
  if (kind != TrackedKind::kInstance && kind != TrackedKind::kModule && kind != TrackedKind::kTensor) return false;
  PyObject* dict = frame_ops::RawInstanceDict(original);
  if (dict == nullptr) return false;
  return !instance_dicts_.insert(dict).second || tracked_.FindByOriginal(dict) != nullptr;
}

void Capture::GuardObject(TrackedKind kind, BorrowedRef original, SourceId source) {
  if (kind == TrackedKind::kTensor) return;
  if (kind == TrackedKind::kFunction) return GuardFunction(original, source);
  if (sources_[source].kind == SourceKind::kConstant) return;
  switch (kind) {
    case TrackedKind::kModule:
    case TrackedKind::kType:
      AddGuard(source, GuardKind::kIdentity, original);
      return;
    case TrackedKind::kCallable:
      // A bound method is new at each look-up: its parts, like a weak reference's target or a partial's fields, are
      // guarded where read.
      if (PyMethod_Check(original.get()) || PyWeakref_Check(original.get()) || original.type() == PartialType()) {
        AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(original.type()));
      } else if (BorrowedRef descriptor =
                     PyCFunction_Check(original.get()) ? DescriptorOfBoundMethod(original) : nullptr) {
        AddGuard(sources_.Intern(SourceKind::kMethodFunction, source, 0, nullptr), GuardKind::kIdentity, descriptor);
      } else {
        AddGuard(source, GuardKind::kIdentity, original);
      }
      return;
    default:
      if (IsRangeOrSlice(original)) {
        AddGuard(source, GuardKind::kEquals, original);
      } else {
        AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(original.type()));
      }
      return;
  }
}

// The object, where it stays the same from call to call; its code in any case, since a program may replace that.
void Capture::GuardFunction(BorrowedRef original, SourceId source) {
  const Source& from = sources_[source];
  const bool global = from.kind == SourceKind::kItem && (sources_[from.base].kind == SourceKind::kGlobals ||
                                                         sources_[from.base].kind == SourceKind::kConstant);
  auto* f = reinterpret_cast<PyFunctionObject*>(original.get());
  const auto field = [&](const char* name, PyObject* value) {
    Ref key = Ref::Steal(PyUnicode_InternFromString(name));
    AddGuard(sources_.Intern(SourceKind::kFunctionField, source, 0, key), GuardKind::kIdentity, value);
  };
  // A look-up in a type compares the object itself.
  const bool compared = from.kind == SourceKind::kTypeAttr || from.kind == SourceKind::kConstant;
  if (!compared && (global || IsStableSource(from.kind))) {
    AddGuard(source, GuardKind::kIdentity, original);
  } else if (!compared) {
    AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(&PyFunction_Type));
    field("__globals__", f->func_globals);
  }
  field("__code__", f->func_code);
}

Value Capture::AdoptTensor(BorrowedRef original, SourceId source) {
  if (!MayReadInBackward(source)) return Value();
  const tracing::InputRole role =
      IsParameter(original) ? tracing::InputRole::kParameter : tracing::InputRole::kArgument;
  absl::StatusOr<Ref> fake = tracer_.MakeInput(original, role, static_cast<int>(tensor_inputs_.size()));
  if (!fake.ok()) return Break(GraphBreakKind::kUnsupportedTensor, std::string(fake.status().message()));
  guards_.AddTensor(source, original, Here());
  tensor_inputs_.push_back(TensorInput{source, Ref::Create(original), *fake});
  history_from_outside_ = history_from_outside_ || HasHistory(original);
  tracked_.Add(TrackedKind::kTensor, source, Ref::Create(original), *fake);
  return Value{*std::move(fake), source};
}

Value Capture::AdoptObject(TrackedKind kind, BorrowedRef original, SourceId source) {
  tracked_.Add(kind, source, Ref::Create(original), Ref::Create(original));
  return Value{Ref::Create(original), source};
}

// An empty shadow of the same type, filled when something reads it as a whole; tuples are made at once.
Value Capture::AdoptContainer(TrackedKind kind, BorrowedRef original, SourceId source) {
  if (!MayReadInBackward(source)) return Value();
  Ref shadow;
  PyTypeObject* type = original.type();
  switch (kind) {
    case TrackedKind::kList:
      shadow = Ref::Steal(PyList_New(0));
      break;
    case TrackedKind::kTuple: {
      const Py_ssize_t size = PyTuple_GET_SIZE(original.get());
      shadow = Ref::Steal(type->tp_alloc(type, size));
      guards_.AddLength(source, size, Here());
      Tracked* t = tracked_.Add(kind, source, Ref::Create(original), shadow);
      t->realised = true;
      for (Py_ssize_t i = 0; i < size; ++i) {
        Ref index = Ref::Steal(PyLong_FromSsize_t(i));
        Value item = Adopt(PyTuple_GET_ITEM(original.get(), i), sources_.Item(source, index));
        if (!item) {  // keeps the tuple whole for its destructor
          PyTuple_SET_ITEM(shadow.get(), i, Py_NewRef(Py_None));
          continue;
        }
        PyTuple_SET_ITEM(shadow.get(), i, item.object.release());
      }
      if (control.unwinding) return Value();
      return Value{std::move(shadow), source};
    }
    case TrackedKind::kSet:
      shadow =
          Ref::Steal(type == &PySet_Type ? PySet_New(nullptr) : PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
      break;
    default:
      shadow = Ref::Steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
      break;
  }
  if (kind == TrackedKind::kSet && type == &PyFrozenSet_Type) {
    // Immutable: what it holds must be leaves, and it is its own representative.
    Ref items = Ref::Steal(PySequence_List(original));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      if (!IsLeaf(PyList_GET_ITEM(items.get(), i))) {
        return Break(GraphBreakKind::kOpaqueObject, "a frozenset of mutable objects");
      }
    }
    AddGuard(source, GuardKind::kSetEquals, original);
    return AdoptObject(TrackedKind::kCallable, original, source);
  }
  if (!shadow) return Value();
  if (type == DequeType()) {
    Ref bound = Ref::Steal(PyObject_GetAttrString(original, "maxlen"));
    if (bound.get() != Py_None) return Break(GraphBreakKind::kOpaqueObject, "a deque with maxlen");
  }
  if (type == DefaultDictType()) {
    Ref factory = Ref::Steal(PyObject_GetAttrString(original, "default_factory"));
    if (PyObject_SetAttrString(shadow, "default_factory", factory) < 0) return Value();
  }
  tracked_.Add(kind, source, Ref::Create(original), shadow);
  return Value{std::move(shadow), source};
}

// A dict and an object whose attributes it could hold are two, and so are the dicts of two objects, as they were when
// captured, if one of them is written.
void Capture::GuardDictsOfInstances() {
  DistinctObjects group;
  for (const auto& t : tracked_.all()) {
    if (t->source == kNoSource) continue;
    const bool instance = t->kind == TrackedKind::kInstance || t->kind == TrackedKind::kModule;
    if (t->kind != TrackedKind::kDict && !(instance && t->original.type()->tp_dictoffset != 0)) continue;
    (t->mutated() ? group.written : group.others).push_back({t->source, instance});
  }
  for (const TestedDict& d : tested_dicts_) {
    if (tracked_.FindByOriginal(d.original) == nullptr) group.others.push_back({d.source, false});
  }
  guards_.AddDistinct(std::move(group));
}

void Capture::GuardDistinctObjects() {
  GuardDictsOfInstances();
  absl::flat_hash_map<PyTypeObject*, DistinctObjects> groups;
  for (const auto& t : tracked_.all()) {
    if (t->source == kNoSource || t->kind == TrackedKind::kTuple || t->kind == TrackedKind::kDict) continue;
    const bool known_by_itself = t->kind == TrackedKind::kInstance || t->kind == TrackedKind::kFunction;
    if (!t->is_container() && !known_by_itself && t->kind != TrackedKind::kCell) continue;
    DistinctObjects& group = groups[t->original.type()];
    (t->mutated() || t->compared ? group.written : group.others).push_back({t->source, false});
  }
  for (auto& [type, group] : groups) guards_.AddDistinct(std::move(group));
}

// ---------------------------------------------------------------- look-ups in types

namespace {
// Whether a class made in a function, `type` or a base of it, has `found` as its own attribute.
bool IsOfLocalClass(PyTypeObject* type, BorrowedRef name, PyObject* found) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(type->tp_mro, i);
    if (!IsLocalClass(cls)) continue;
    if (PyDict_GetItemWithError(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls)), name) == found) return true;
  }
  return false;
}
}  // namespace

BorrowedRef Capture::LookupInType(PyTypeObject* type, BorrowedRef name) {
  if (classes_.IsMade(type)) return classes_.Lookup(type, name);
  const auto key = std::make_pair(type, name.get());
  const auto it = type_lookups_.find(key);
  if (it != type_lookups_.end()) return it->second.found;
  PyObject* found = frame_ops::TypeLookup(type, name);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    // What a class made in a function has may refer to it: an entry that held it would keep the class alive.
    const bool version = found != nullptr && PyObject_IS_GC(found) && !PyType_Check(found) && !Held(found).weak() &&
                         IsOfLocalClass(type, name, found);
    guards_.AddTypeLookup(ConstantSource(reinterpret_cast<PyObject*>(type)), name, found, Here(),
                          version ? frame_ops::TypeVersion(type) : 0);
  }
  type_lookups_.emplace(key, TypeLookup{Ref::Create(name), Ref::Create(found)});
  return found;
}

BorrowedRef Capture::LookupInType(PyTypeObject* type, const char* name) {
  // By address: nearly all are literals. Another text may come to stand at the same place.
  static auto* const known = new absl::flat_hash_map<const char*, Ref>();
  Ref& interned = (*known)[name];
  if (!interned || PyUnicode_CompareWithASCIIString(interned, name) != 0) {
    interned = Ref::Steal(PyUnicode_InternFromString(name));
  }
  return LookupInType(type, interned);
}

namespace {
// Whether C code that calls this special method runs no more than its own C code or a frame that capture sees begin:
// any other callable would act on what it holds, past capture.
bool IsCapturedFromC(BorrowedRef method) {
  PyObject* m = method.get();
  if (m == nullptr || m == Py_None || PyFunction_Check(m)) return true;
  if (Py_IS_TYPE(m, &PyWrapperDescr_Type) || Py_IS_TYPE(m, &PyMethodDescr_Type) ||
      Py_IS_TYPE(m, &PyClassMethodDescr_Type) || Py_IS_TYPE(m, &PyGetSetDescr_Type) ||
      Py_IS_TYPE(m, &PyMemberDescr_Type)) {
    return true;
  }
  if (PyCFunction_Check(m)) {
    PyObject* self = PyCFunction_GET_SELF(m);
    return self == nullptr || PyModule_Check(self) || PyType_Check(self);
  }
  if (!Py_IS_TYPE(m, &PyStaticMethod_Type) && !Py_IS_TYPE(m, &PyClassMethod_Type)) return false;
  const Ref inner = Ref::Steal(PyObject_GetAttrString(m, "__func__"));
  if (!inner) PyErr_Clear();
  return inner && (PyFunction_Check(inner.get()) || Py_IS_TYPE(inner.get(), &PyMethodDescr_Type));
}
}  // namespace

namespace {
const std::vector<Ref>& ProtocolNames() {
  static const auto* names = new std::vector<Ref>{
#define FF_PROTOCOL(name) Ref::Steal(PyUnicode_InternFromString(#name)),
#include "symbolic/capture/protocol_methods.def"
#undef FF_PROTOCOL
  };
  return *names;
}

bool HasLocalClassInMro(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    if (IsLocalClass(PyTuple_GET_ITEM(type->tp_mro, i))) return true;
  }
  return false;
}

Ref TupleOf(absl::Span<PyObject* const> objects) {
  Ref tuple = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
  for (std::size_t i = 0; tuple && i < objects.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(objects[i]));
  }
  return tuple;
}
}  // namespace

namespace {
// What a class has under the protocols' names. Borrowed: the class keeps them while it has the version.
struct ProtocolLookups {
  std::uint32_t version = 0;
  Ref names, absent;
  std::vector<PyObject*> found;  // parallel to `names`
  BorrowedRef unseen;            // the name of one that C code would call past capture
};

// One by one, `lookup` guards each name.
template <typename Lookup>
ProtocolLookups LookUpProtocols(Lookup&& lookup) {
  ProtocolLookups result;
  absl::InlinedVector<PyObject*, 128> names, absent;
  for (const Ref& name : ProtocolNames()) {
    const BorrowedRef found = lookup(name);
    if (!IsCapturedFromC(found) && !result.unseen) result.unseen = name;
    (found ? names : absent).push_back(name);
    if (found) result.found.push_back(found);
  }
  result.names = TupleOf(names);
  result.absent = TupleOf(absent);
  return result;
}

const ProtocolLookups& ProtocolsOf(PyTypeObject* type) {
  static auto* const known = new absl::flat_hash_map<PyTypeObject*, ProtocolLookups>();
  constexpr std::size_t kMost = 4096;  // classes that ended leave theirs behind
  if (known->size() >= kMost) known->clear();
  ProtocolLookups& lookups = (*known)[type];
  const std::uint32_t version = frame_ops::TypeVersion(type);
  if (version != 0 && lookups.version == version) return lookups;
  lookups = LookUpProtocols([&](BorrowedRef name) { return BorrowedRef(frame_ops::TypeLookup(type, name)); });
  lookups.version = version;
  return lookups;
}
}  // namespace

// One guard for all names. Classes made in a function get one a name, which knows what must not be held.
bool Capture::GuardProtocolMethods(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || guarded_protocols_.contains(type)) return true;
  BorrowedRef unseen;
  const bool made = classes_.IsMade(type);
  if (made || HasLocalClassInMro(type)) {
    unseen = LookUpProtocols([&](BorrowedRef name) { return LookupInType(type, name); }).unseen;
  } else {
    const ProtocolLookups& all = ProtocolsOf(type);
    unseen = all.unseen;
    if (!unseen) {
      const Ref lookups = Ref::Steal(PyTuple_Pack(3, all.names.get(), TupleOf(all.found).get(), all.absent.get()));
      guards_.AddTypeLookups(ConstantSource(reinterpret_cast<PyObject*>(type)), lookups, Here(),
                             frame_ops::TypeVersion(type));
    }
  }
  if (unseen) {
    return BreakFalse(GraphBreakKind::kOpaqueObject,
                      absl::StrCat("C code may call ", type->tp_name, ".", Utf8(unseen), ", which is no function"));
  }
  if (!made) guarded_protocols_.insert(type);  // what it has may change
  return true;
}

}  // namespace framefuse
