// Adopting objects, and the guards that seeing one implies.

#include "symbolic/journals/object_table.h"

#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "common/check.h"
#include "frame_eval/versions/private_api.h"
#include "guards/leaf/object_members.h"
#include "guards/read.h"
#include "symbolic/frames/indexed_arguments.h"
#include "symbolic/journals/array_memory.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/made_array.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/symbols.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/tensor_types.h"
#include "symbolic/tracing/sharded_tensors.h"

namespace framefuse {
namespace {

bool IsExactDict(BorrowedRef o) { return PyDict_CheckExact(o.get()) || PyODict_CheckExact(o.get()); }

// Of a Python class derived from list, dict, OrderedDict, defaultdict, set or deque: items as those have them, and
// attributes as instances have them. Not one that is its own __dict__, or whose shadow's end would run code. A
// defaultdict has one attribute, its factory.
bool IsContainerOfClass(BorrowedRef object) {
  PyTypeObject* type = object.type();
  if (type == DefaultDictType()) return true;
  if (!IsPythonClass(type) || type->tp_finalize != nullptr || type->tp_del != nullptr) return false;
  PyTypeObject* base = NativeBase(type);
  const bool known = base == &PyList_Type || base == &PyDict_Type || base == &PyODict_Type || base == &PySet_Type ||
                     base == DequeType() || base == DefaultDictType();
  return known && frame_ops::RawInstanceDict(object) != object.get();
}

TrackedKind KindOfContainer(PyTypeObject* base) {
  if (base == &PyList_Type) return TrackedKind::kList;
  if (base == &PySet_Type) return TrackedKind::kSet;
  return base == DequeType() ? TrackedKind::kDeque : TrackedKind::kDict;
}

// Instances whose attributes are read the generic way and that have no C state of their own.
bool HasGenericLayout(PyTypeObject* type) {
  PyTypeObject* base = NativeBase(type);
  if (base == SimpleNamespaceType()) return true;
  return IsPythonClass(type) && (base == &PyBaseObject_Type || IsAutogradContextType(base));
}

// The dict behind a view or a proxy, if it is no class's namespace, which has a text under `__doc__` always.
BorrowedRef DictBehind(BorrowedRef o) {
  const BorrowedRef viewed = private_api::IsView(o.get()) ? private_api::ViewedBy(o.get()) : BorrowedRef();
  if (!viewed || !IsExactDict(viewed)) return nullptr;
  static PyObject* const doc = PyUnicode_InternFromString("__doc__");
  const bool is_namespace = Py_IS_TYPE(o.get(), &PyDictProxy_Type) && PyDict_Contains(viewed.get(), doc) != 0;
  return is_namespace ? BorrowedRef() : viewed;
}

// Sources at which a whole function object stays put from call to call.
bool IsStableSource(SourceKind kind) {
  return kind == SourceKind::kTypeAttr || kind == SourceKind::kModuleAttr || kind == SourceKind::kConstant;
}

}  // namespace

TrackedKind ObjectTable::Classify(BorrowedRef o) {
  PyTypeObject* type = o.type();
  if (IsTensor(o)) return TrackedKind::kTensor;
  if (type == &PyFunction_Type) return TrackedKind::kFunction;
  if (PyList_CheckExact(o.get())) return TrackedKind::kList;
  if (IsExactDict(o) || type == DefaultDictType()) return TrackedKind::kDict;
  if (PyTuple_Check(o.get())) {
    const bool ends_by_code = type->tp_finalize != nullptr || type->tp_del != nullptr;  // and so would its shadow
    return ends_by_code || IsStructSequenceType(type) ? TrackedKind::kOpaque : TrackedKind::kTuple;
  }
  if (PyAnySet_CheckExact(o.get())) return TrackedKind::kSet;
  if (type == DequeType()) return TrackedKind::kDeque;
  if (PyCell_Check(o.get())) return TrackedKind::kCell;
  if (PyContextVar_CheckExact(o.get())) return TrackedKind::kContextVariable;
  if (PyModule_Check(o.get())) return TrackedKind::kModule;
  if (PyType_Check(o.get())) return TrackedKind::kType;
  if (PyCFunction_Check(o.get()) || PyMethod_Check(o.get()) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type || type == &PyProperty_Type ||
      type == &PyStaticMethod_Type || type == &PyClassMethod_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == PartialType() || type == LruCacheType() || type == ItemGetterType()) {
    return TrackedKind::kCallable;
  }
  if (PyWeakref_CheckRefExact(o.get()) || IsRegularExpression(o) || IsUnion(o)) return TrackedKind::kCallable;
  if (IsContainerOfClass(o)) return KindOfContainer(NativeBase(type));
  if (DictBehind(o)) return TrackedKind::kView;
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

Value ObjectTable::Adopt(BorrowedRef original, SourceId source) {
  const std::optional<SourceId> rebased = reads_.Rebase(source);
  if (!rebased) return Value{Ref::Create(original), kNoSource};
  source = *rebased;
  if (IsLeaf(original)) {
    // That it is there is a fact even if its value never matters.
    const bool can_be_absent = source != kNoSource && reads_.sources()[source].base != kNoSource;
    if (can_be_absent) reads_.NoteLeaf(source);
    if (IsNumpyNumberType(original.type())) boundary_.RaiseNumpyErrors();
    if (Ref number = symbols_.NumberAt(original, source)) {
      if (!PyTuple_Check(number.get())) return Value{std::move(number), source};
      elements_by_value_.insert(number.get());  // nobody may ask which object a torch.Size is
      return Value{std::move(number), kNoSource};
    }
    return Value{Ref::Create(original), source};
  }
  Tracked* known = tracked_.FindByOriginal(original);
  if (known == nullptr) known = tracked_.Find(original);  // already a representative
  if (known != nullptr) {
    const SourceId first = known->kind == TrackedKind::kInstanceDict
                               ? reads_.sources().Intern(SourceKind::kInstanceDict, known->owner->source, 0, nullptr)
                               : known->source;
    if (first != source && source != kNoSource) reads_.AddGuard(source, GuardKind::kSameAs, nullptr, first);
    return Value{Ref::Create(known->representative), known->source};
  }
  const TrackedKind kind = Classify(original);
  if (IsArray(original)) boundary_.RaiseNumpyErrors();
  if (IsDictOfInstance(kind, original)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "the __dict__ of an object that is used, too");
  }
  if (kind == TrackedKind::kDict && IsNamespaceOfModule(original)) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "the __dict__ of a module");
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
    case TrackedKind::kView:
      return AdoptView(original, source);
    case TrackedKind::kCell:
    case TrackedKind::kContextVariable:
    case TrackedKind::kInstance:
    case TrackedKind::kInstanceDict:
    case TrackedKind::kFunction:
    case TrackedKind::kModule:
    case TrackedKind::kType:
    case TrackedKind::kCallable:
    case TrackedKind::kOpaque:
      break;
  }
  return AdoptObject(kind, original, source);
}

// Whether one of two, a dict and an object whose attributes it holds, or two such objects, is adopted and the other
// was: writes to one are seen in the other.
bool ObjectTable::IsDictOfInstance(TrackedKind kind, BorrowedRef original) {
  if (kind == TrackedKind::kDict) {
    const auto is_globals = [&](Activation* act) { return frame_ops::Globals(act->frame) == original.get(); };
    if (instance_dicts_.contains(original.get()) || absl::c_any_of(frames_.all(), is_globals)) return true;
  }
  const bool has_attributes = kind == TrackedKind::kInstance || kind == TrackedKind::kModule ||
                              kind == TrackedKind::kTensor || IsContainerOfClass(original) ||
                              (kind == TrackedKind::kTuple && original.type()->tp_dictoffset != 0);
  if (!has_attributes) return false;
  PyObject* dict = frame_ops::RawInstanceDict(original);
  if (dict == nullptr) return false;
  return !instance_dicts_.insert(dict).second || tracked_.FindByOriginal(dict) != nullptr;
}

void ObjectTable::GuardObject(TrackedKind kind, BorrowedRef original, SourceId source) {
  if (kind == TrackedKind::kTensor) return;
  if (kind == TrackedKind::kFunction) return GuardFunction(original, source);
  const Source& from = reads_.sources()[source];
  if (from.kind == SourceKind::kConstant && from.index == 0) return;
  switch (kind) {
    case TrackedKind::kModule:
    case TrackedKind::kType:
      reads_.AddGuard(source, GuardKind::kIdentity, original);
      return;
    case TrackedKind::kCallable:
      // A bound method is new at each look-up: its parts, like a weak reference's target or a partial's fields, are
      // guarded where read.
      if (PyMethod_Check(original.get()) || PyWeakref_Check(original.get()) || original.type() == PartialType()) {
        reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(original.type()));
      } else if (BorrowedRef descriptor =
                     PyCFunction_Check(original.get()) ? DescriptorOfBoundMethod(original) : nullptr) {
        reads_.AddGuard(reads_.sources().Intern(SourceKind::kMethodFunction, source, 0, nullptr), GuardKind::kIdentity,
                        descriptor);
      } else {
        reads_.AddGuard(source, GuardKind::kIdentity, original);
      }
      return;
    case TrackedKind::kTensor:
    case TrackedKind::kList:
    case TrackedKind::kTuple:
    case TrackedKind::kDict:
    case TrackedKind::kSet:
    case TrackedKind::kDeque:
    case TrackedKind::kCell:
    case TrackedKind::kContextVariable:
    case TrackedKind::kInstance:
    case TrackedKind::kInstanceDict:
    case TrackedKind::kFunction:
    case TrackedKind::kView:
    case TrackedKind::kOpaque:
      break;
  }
  if (IsRangeOrSlice(original)) {
    reads_.AddGuard(source, GuardKind::kEquals, original);
  } else {
    reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(original.type()));
  }
}

// The object, where it stays the same from call to call; its code in any case, since a program may replace that.
void ObjectTable::GuardFunction(BorrowedRef original, SourceId source) {
  const Source& from = reads_.sources()[source];
  const bool global = from.kind == SourceKind::kItem && (reads_.sources()[from.base].kind == SourceKind::kGlobals ||
                                                         reads_.sources()[from.base].kind == SourceKind::kConstant);
  auto* f = reinterpret_cast<PyFunctionObject*>(original.get());
  const auto field = [&](const char* name, PyObject* value) {
    Ref key = Ref::Steal(PyUnicode_InternFromString(name));
    reads_.AddGuard(reads_.sources().Intern(SourceKind::kFunctionField, source, 0, key), GuardKind::kIdentity, value);
  };
  // A look-up in a type compares the object itself.
  const bool compared = from.kind == SourceKind::kTypeAttr || from.kind == SourceKind::kConstant;
  if (!compared && (global || IsStableSource(from.kind))) {
    reads_.AddGuard(source, GuardKind::kIdentity, original);
  } else if (!compared) {
    reads_.AddGuard(source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(&PyFunction_Type));
    field("__globals__", f->func_globals);
  }
  field("__code__", f->func_code);
}

namespace {
// Whether an object has it, which is no argument's item.
bool IsKept(ReadJournal& reads, SourceId source) {
  for (SourceId id = source; id != kNoSource; id = reads.sources()[id].base) {
    const SourceKind kind = reads.sources()[id].kind;
    if (kind == SourceKind::kInstanceAttr || kind == SourceKind::kSlotAttr) return true;
  }
  return false;
}
}  // namespace

Value ObjectTable::AdoptTensor(BorrowedRef original, SourceId source) {
  if (!reads_.MayRead(source)) return Value();
  if (tracing::IsSharded(original)) return AdoptSharded(original, source);
  const bool is_parameter = IsParameter(original);
  const tracing::InputRole role = is_parameter             ? tracing::InputRole::kParameter
                                  : IsKept(reads_, source) ? tracing::InputRole::kBuffer
                                                           : tracing::InputRole::kArgument;
  const int index = static_cast<int>(tensor_inputs_.size());
  absl::StatusOr<Ref> fake =
      tracer_.MakeInput(original, role, index, "", symbols_.DimsOf(original, source, is_parameter));
  if (!fake.ok()) return breaks_.Break(GraphBreakKind::kUnsupportedTensor, std::string(fake.status().message()));
  reads_.AddTensor(source, original);
  symbols_.FreeDimsOf(source, index);
  tensor_inputs_.push_back(TensorInput{source, Ref::Create(original), *fake});
  has_history_from_outside_ = has_history_from_outside_ || HasHistory(original);
  tracked_.Add(TrackedKind::kTensor, source, Ref::Create(original), *fake);
  return Value{*std::move(fake), source};
}

Value ObjectTable::AdoptObject(TrackedKind kind, BorrowedRef original, SourceId source) {
  tracked_.Add(kind, source, Ref::Create(original), Ref::Create(original));
  return Value{Ref::Create(original), source};
}

Value ObjectTable::AdoptTuple(BorrowedRef original, SourceId source) {
  PyTypeObject* type = original.type();
  const Py_ssize_t size = PyTuple_GET_SIZE(original.get());
  reads_.AddLength(source, size);
  const bool is_the_empty_one = size == 0 && type == &PyTuple_Type;
  Ref shadow = is_the_empty_one ? Ref::Create(original) : private_api::NewTuple(type, size);
  Tracked* t = tracked_.Add(TrackedKind::kTuple, source, Ref::Create(original), shadow);
  t->realised = true;
  if (type->tp_dictoffset != 0) tracked_.AddAttributes(t);
  bool done = true;
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref index = Ref::Steal(PyLong_FromSsize_t(i));
    Value item = done ? Adopt(PyTuple_GET_ITEM(original.get(), i), reads_.sources().Item(source, index)) : Value();
    done = done && item;
    // Behind one that failed, None keeps the tuple whole for its destructor.
    PyTuple_SET_ITEM(shadow.get(), i, item ? item.object.release() : Py_NewRef(Py_None));
  }
  return done ? Value{std::move(shadow), source} : Value();
}

namespace {
// Gives the empty shadow of a deque its bound.
bool BoundDeque(BorrowedRef original, SourceId source, BorrowedRef shadow, ObjectTable& objects, ReadJournal& reads) {
  static PyObject* const maxlen = PyDict_GetItemString(frame_ops::TypeDict(DequeType()), "maxlen");
  const Ref bound = Ref::Steal(PyGetSetDescr_Type.tp_descr_get(maxlen, original, nullptr));
  if (!bound) return false;
  reads.Consume(objects.Adopt(bound, reads.sources().Intern(SourceKind::kMaxlen, source, 0, nullptr)));
  const Ref arguments = Ref::Steal(Py_BuildValue("(()O)", bound.get()));
  return arguments && DequeType()->tp_init(shadow, arguments, nullptr) == 0;
}

// C code asks the shadow of a defaultdict for its factory.
bool GiveFactory(const Tracked& t, ObjectTable& objects, ReadJournal& reads) {
  const SourceId source = reads.sources().Intern(SourceKind::kSlotAttr, t.source, 0, FactorySlot());
  const BorrowedRef factory = RawFactoryOf(t.original);
  if (!factory) {
    reads.AddGuard(source, GuardKind::kNull, nullptr);
    return true;
  }
  const Value own = objects.Adopt(factory, source);
  reads.Consume(own);
  return own && PyMemberDescr_Type.tp_descr_set(FactorySlot(), t.representative, own.object) == 0;
}
}  // namespace

// An empty shadow of the same type, filled when something reads it as a whole; tuples are made at once.
Value ObjectTable::AdoptContainer(TrackedKind kind, BorrowedRef original, SourceId source) {
  if (!reads_.MayRead(source)) return Value();
  if (kind == TrackedKind::kTuple) return AdoptTuple(original, source);
  if (IsContainerOfClass(original)) return AdoptContainerOfClass(kind, original, source);
  Ref shadow;
  PyTypeObject* type = original.type();
  switch (kind) {
    case TrackedKind::kList:
      shadow = Ref::Steal(PyList_New(0));
      break;
    case TrackedKind::kSet:
      shadow =
          Ref::Steal(type == &PySet_Type ? PySet_New(nullptr) : PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
      break;
    case TrackedKind::kDict:
    case TrackedKind::kDeque:
      shadow = Ref::Steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
      break;
    default:
      FF_CHECK(false) << "an object that is no container gets no shadow";
  }
  if (kind == TrackedKind::kSet && type == &PyFrozenSet_Type) {
    // Immutable, so it is its own representative, if what it holds may be looked at.
    Ref items = Ref::Steal(PySequence_List(original));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      if (AdoptElement(PyList_GET_ITEM(items.get(), i))) continue;
      return PyErr_Occurred() != nullptr ? Value() : AdoptObject(TrackedKind::kOpaque, original, source);
    }
    reads_.AddGuard(source, GuardKind::kSetEquals, original);
    reads_.AddGuard(source, GuardKind::kSetLayout, original);
    return AdoptObject(TrackedKind::kCallable, original, source);
  }
  if (!shadow) return Value();
  if (kind == TrackedKind::kDeque && !BoundDeque(original, source, shadow, *this, reads_)) return Value();
  tracked_.Add(kind, source, Ref::Create(original), shadow);
  return Value{std::move(shadow), source};
}

Value ObjectTable::AdoptView(BorrowedRef original, SourceId source) {
  const Value dict = Adopt(DictBehind(original), reads_.sources().Intern(SourceKind::kViewed, source, 0, nullptr));
  if (!dict) return Value();
  const Ref maker = private_api::MakerOfView(original.type());
  Ref view = maker ? Ref::Steal(PyObject_CallOneArg(maker, dict.object)) : Ref();
  if (!view) return Value();
  tracked_.Add(TrackedKind::kView, source, Ref::Create(original), view);
  return Value{std::move(view), source};
}

// The shadow is of the same class, for what C code asks of it; its attributes stay with the original.
Value ObjectTable::AdoptContainerOfClass(TrackedKind kind, BorrowedRef original, SourceId source) {
  Ref shadow = EmptyOfClass(original.type());
  if (!shadow || (kind == TrackedKind::kDeque && !BoundDeque(original, source, shadow, *this, reads_))) return Value();
  Tracked* t = tracked_.Add(kind, source, Ref::Create(original), shadow);
  tracked_.AddAttributes(t);
  if (IsDefaultDict(original) && !GiveFactory(*t, *this, reads_)) return Value();
  return Value{std::move(shadow), source};
}

// A dict and an object whose attributes it could hold are two, and so are the dicts of two objects, as they were when
// captured, if one of them is written.
void ObjectTable::GuardDictsOfInstances() {
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
  reads_.guards().AddDistinct(std::move(group));
}

void ObjectTable::GuardDistinctObjects() {
  GuardDictsOfInstances();
  absl::flat_hash_map<PyTypeObject*, DistinctObjects> groups;
  const bool notes_on_tensors = absl::c_any_of(
      tracked_.all(), [](const auto& t) { return t->kind == TrackedKind::kTensor && !t->writes.empty(); });
  for (const auto& t : tracked_.all()) {
    const bool plain_dict = t->kind == TrackedKind::kDict && t->attributes == nullptr;
    const bool part = t->kind == TrackedKind::kInstance && t->owner != nullptr;  // goes with its container
    if (t->source == kNoSource || t->kind == TrackedKind::kTuple || plain_dict || part) continue;
    const bool known_by_itself =
        t->kind == TrackedKind::kInstance || t->kind == TrackedKind::kFunction || t->kind == TrackedKind::kView;
    const bool tensor = t->kind == TrackedKind::kTensor && (notes_on_tensors || t->compared);
    const bool holder = t->kind == TrackedKind::kCell || t->kind == TrackedKind::kContextVariable;
    if (!t->is_container() && !known_by_itself && !holder && !tensor) continue;
    DistinctObjects& group = groups[t->original.type()];
    const bool written = t->mutated() || t->compared || t->holder_of_attributes().mutated();
    (written ? group.written : group.others).push_back({t->source, false});
  }
  for (auto& [type, group] : groups) reads_.guards().AddDistinct(std::move(group));
}

// Items that nothing reads are guarded by nothing: the tuple of *args has its own until one is taken.
Value ObjectTable::AdoptLocal(Activation& act, BorrowedRef original, int slot) {
  const SourceId source = reads_.sources().Local(slot);
  const bool whole = !PyTuple_CheckExact(original.get()) || tracked_.FindByOriginal(original) != nullptr ||
                     PyTuple_GET_SIZE(original.get()) == 0 || !IsOnlyIndexed(act.frame, slot);
  if (whole || !reads_.MayRead(source)) return Adopt(original, source);
  GuardObject(TrackedKind::kTuple, original, source);
  const Ref items = Ref::Steal(PySequence_List(original));
  Ref shadow = items ? Ref::Steal(PyList_AsTuple(items)) : Ref();
  if (!shadow) return Value();
  tracked_.Add(TrackedKind::kTuple, source, Ref::Create(original), shadow);
  return Value{std::move(shadow), source};
}

Tracked* ObjectTable::InstanceDictOf(Tracked& instance) {
  if (instance.dict != nullptr) return instance.dict;
  Ref original = Ref::Create(frame_ops::RawInstanceDict(instance.original));
  Tracked* dict = tracked_.Add(TrackedKind::kInstanceDict, kNoSource, original, Ref::Steal(PyDict_New()));
  dict->owner = &instance;
  instance.dict = dict;
  return dict;
}

bool ObjectTable::NoteEmptyDict(SourceId source, BorrowedRef original) {
  if (FindByOriginal(original) != nullptr || Find(original) != nullptr || instance_dicts_.contains(original.get())) {
    return false;
  }
  tested_dicts_.push_back({source, original.get()});
  return true;
}

void ObjectTable::NoteArray(BorrowedRef array, BorrowedRef tensor) {
  NoteMemory(*tracked_.Add(TrackedKind::kOpaque, kNoSource, Ref::Create(array), Ref::Create(array)), tensor);
  has_empty_arrays_ = true;
}

void ObjectTable::NoteUnknown(BorrowedRef object) {
  tracked_.Add(TrackedKind::kOpaque, kNoSource, Ref::Create(object), Ref::Create(object));
}

void ObjectTable::NoteMadeArray(BorrowedRef array, MadeArray how) {
  Tracked* t = Find(array);  // one from outside: the entry hands it to numpy as it is
  if (t == nullptr) t = tracked_.Add(TrackedKind::kOpaque, kNoSource, Ref::Create(array), Ref::Create(array));
  t->made = std::make_shared<const MadeArray>(std::move(how));
  has_empty_arrays_ = true;
}

bool ObjectTable::IsEmptyArray(BorrowedRef object) const {
  if (!has_empty_arrays_ || !IsArray(object)) return false;
  const Tracked* t = Find(object);
  return t != nullptr && t->is_empty_array();
}

void ObjectTable::NoteFreshDict(BorrowedRef dict, BorrowedRef owner) {
  fresh_dicts_[dict.get()] = {Ref::Create(dict), Ref::Create(owner)};
}

BorrowedRef ObjectTable::OwnerOfDict(BorrowedRef dict) const {
  const auto it = fresh_dicts_.find(dict.get());
  return it == fresh_dicts_.end() ? BorrowedRef() : BorrowedRef(it->second.owner);
}

}  // namespace framefuse
