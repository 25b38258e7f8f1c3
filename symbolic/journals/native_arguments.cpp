#include "symbolic/journals/native_arguments.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/private_api.h"
#include "guards/read.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/kept_keys.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/moving_code.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/rules/torch_generators.h"

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

bool NativeArguments::PrepareNative(ValueView v, bool allow_instances) {
  if (v.source != kNoSource) reads_.Move(v);
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

// It compares the classes by themselves.
bool IsUnionOfClasses(BorrowedRef object) {
  const Ref args = Ref::Steal(PyObject_GetAttrString(object, "__args__"));
  if (!args || !PyTuple_CheckExact(args.get())) PyErr_Clear();
  bool all = args && PyTuple_CheckExact(args.get());
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(args.get()); ++i) {
    PyObject* arg = PyTuple_GET_ITEM(args.get(), i);
    all = arg == Py_None || Py_IS_TYPE(arg, &PyType_Type);
  }
  return all;
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

bool NativeArguments::PrepareOuter(ValueView v) {
  PyObject* o = v.object;
  Tracked* t = objects_.Find(v.object);
  const bool is_view = t != nullptr && t->kind == TrackedKind::kView;
  if (is_view || (t == nullptr && (PyDictValues_Check(o) || PyDictItems_Check(o)))) {
    return PrepareOuter(ValueView(private_api::ViewedBy(o), kNoSource));
  }
  PinKeys(reads_, v.object);
  if (t == nullptr && (IsTemplate(v.object) || IsTemplateIterator(v.object))) return true;
  if (t == nullptr && IsNativeIterator(v.object)) return MovesItems(v.object) || PrepareNative(v);
  if (PyTuple_Check(o) && IsLeaf(v.object)) {  // a torch.Size
    reads_.Move(v);
    return true;
  }
  const bool made_tuple = t == nullptr && PyTuple_Check(o);  // a named one, too
  if (!PyList_CheckExact(o) && !PyTuple_CheckExact(o) && !PyDict_CheckExact(o) && !made_tuple) return PrepareNative(v);
  if (t == nullptr) return true;
  if (!t->has_shadow()) return PrepareNative(v);
  return contents_.Realise(*t, true);
}

bool NativeArguments::PrepareWalked(ValueView v) {
  const Tracked* view = objects_.Find(v.object);
  const bool is_view = view != nullptr ? view->kind == TrackedKind::kView : PyDictViewSet_Check(v.object.get()) != 0;
  const BorrowedRef dict = is_view ? private_api::ViewedBy(v.object) : v.object;
  Tracked* t = objects_.Find(dict);
  const bool is_dict = t != nullptr ? t->kind == TrackedKind::kDict : PyDict_CheckExact(dict.get()) != 0;
  if (!is_dict) return PrepareOuter(v);
  return t == nullptr || contents_.Realise(*t, true);
}

bool NativeArguments::PrepareMembership(ValueView v) {
  Tracked* t = objects_.Find(v.object);
  if (t != nullptr && t->kind == TrackedKind::kView) PinKeys(reads_, private_api::ViewedBy(v.object));
  if (t == nullptr || t->kind != TrackedKind::kSet || t->attributes != nullptr) return PrepareOuter(v);
  return contents_.Realise(*t, true);
}

bool NativeArguments::PrepareAll(absl::Span<const ValueView> values, bool allow_instances) {
  for (const ValueView& v : values) {
    if (!PrepareNative(v, allow_instances)) return false;
  }
  return true;
}

bool NativeArguments::PrepareForTorch(absl::Span<const ValueView> values) {
  const bool outer = std::exchange(for_torch_, true);
  const bool outer_numbers = std::exchange(keeps_numbers_, true);
  const bool done = PrepareAll(values, true);
  for_torch_ = outer;
  keeps_numbers_ = outer_numbers;
  return done;
}

bool NativeArguments::PrepareSubscript(ValueView v) {
  const bool outer = std::exchange(keeps_numbers_, true);
  const bool done = PrepareNative(v);
  keeps_numbers_ = outer;
  return done;
}

namespace {
// Or a view of one that has.
bool HasMemoryOfTensor(BorrowedRef array, const ObjectTable& objects) {
  Ref part = Ref::Create(array);
  while (part && IsArray(part)) {
    const Tracked* t = objects.Find(part);
    if (t != nullptr && t->is_empty_array() && t->source == kNoSource) return true;
    part = Ref::Steal(PyObject_GetAttrString(part, "base"));
  }
  return false;
}

// Why C code may not read an array of numpy; null: it may. One from outside gets a guard on what it holds.
const char* ReadArray(BorrowedRef array, Tracked* t, const ObjectTable& objects, ReadJournal& reads) {
  if (!IsNumberArray(array)) return "an array of numpy that is large, or no array of numbers";
  if (HasMemoryOfTensor(array, objects)) return "an array of numpy with the memory of a tensor that was made here";
  for (const TensorInput& input : objects.tensor_inputs()) {
    if (IsWritten(input.fake)) return "an array of numpy behind a write to a tensor, which may share its memory";
  }
  if (t == nullptr || t->realised) return nullptr;
  GuardContents(t->original, t->source, reads.guards());
  t->realised = true;
  return nullptr;
}
}  // namespace

bool NativeArguments::PrepareNative(BorrowedRef object, bool allow_instances) {
  // Whether so long a number may become text is a setting of the interpreter (sys.set_int_max_str_digits).
  constexpr std::size_t kBitsOfAnySetting = 2126;  // 640 digits
  if (IsLeaf(object)) {
    if (!keeps_numbers_) reads_.PinNumber(object);
    if (!PyLong_CheckExact(object.get()) || private_api::BitCount(object) <= kBitsOfAnySetting) return true;
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a number of more than 640 digits");
  }
  if (IsFakeTensor(object)) return true;
  Tracked* t = objects_.Find(object);
  if (IsArray(object)) {
    const char* why = for_torch_ ? "torch reads an array of numpy" : ReadArray(object, t, objects_, reads_);
    return why == nullptr || breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, why);
  }
  const bool by_method = PyMethod_Check(object.get()) != 0;
  const BorrowedRef function = by_method ? BorrowedRef(PyMethod_GET_FUNCTION(object.get())) : object;
  if (PyFunction_Check(function.get()) && SeesPastCapture(function)) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat("C code calls ", DescribeCallable(function)));
  }
  if (t != nullptr) {
    if (!PrepareTracked(*t, object, allow_instances)) return false;
    if (!t->has_shadow()) return true;
  }
  // The graph would draw from this one in each call, and each call makes one of its own (OwnGenerators).
  if (t == nullptr && for_torch_ && IsTorchGenerator(object)) {
    return breaks_.BreakFalse(GraphBreakKind::kRandomState, "a draw by a generator that was made here");
  }
  constexpr std::size_t kDeepest = 1000;  // each level takes of C's stack
  // What holds itself is in preparation already.
  if (!preparing_.insert(object.get()).second) return true;
  if (preparing_.size() > kDeepest) {
    preparing_.erase(object.get());
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads objects that lie too deep in others");
  }
  const bool done = PrepareContents(object, t != nullptr, allow_instances);
  preparing_.erase(object.get());
  return done;
}

bool NativeArguments::PrepareCallable(BorrowedRef object, bool allow_instances) {
  PyObject* o = object;
  // Called from C code it would act on its original self.
  if (PyCFunction_Check(o) && DescriptorOfBoundMethod(o) != nullptr) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code calls a bound C method from outside");
  }
  // Its text is made of its parts' attributes.
  if (PyMethod_Check(o) && (!allow_instances || !PyFunction_Check(PyMethod_GET_FUNCTION(o)))) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a bound method from outside");
  }
  if (IsUnion(object) && !IsUnionOfClasses(object)) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a union of other things than classes");
  }
  if (SeesPastCapture(object)) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat("C code calls ", DescribeCallable(o)));
  }
  return true;
}

namespace {
// C code may call the class.
void GuardMaking(ReadJournal& reads, PyTypeObject* type) {
  if (!IsPythonClass(type)) return;
  reads.LookupInType(Py_TYPE(type), "__call__");
  for (const char* name : {"__new__", "__init__"}) reads.LookupInType(type, name);
}
}  // namespace

bool NativeArguments::PrepareTracked(Tracked& t, BorrowedRef object, bool allow_instances) {
  PyObject* o = object;
  if (t.source != kNoSource && IsNumberOrTextClass(Py_TYPE(o))) {
    reads_.AddGuard(t.source, GuardKind::kIdentity, t.original);
    return reads_.GuardProtocolMethods(Py_TYPE(o));
  }
  switch (t.kind) {
    case TrackedKind::kFunction:
    case TrackedKind::kType:
      if (!t.writes.empty()) {
        return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                  absl::StrCat("C code reads a ", Py_TYPE(o)->tp_name, " that was written"));
      }
      t.compared = t.kind == TrackedKind::kFunction;
      if (t.kind == TrackedKind::kType) GuardMaking(reads_, reinterpret_cast<PyTypeObject*>(o));
      return true;
    case TrackedKind::kModule:
    case TrackedKind::kCell:
    case TrackedKind::kContextVariable:
      return true;
    case TrackedKind::kCallable:
      return PrepareCallable(object, allow_instances);
    case TrackedKind::kInstance:
      // A namespace's own repr and comparison read its attributes.
      if (!allow_instances || NativeBase(Py_TYPE(o)) != &PyBaseObject_Type) {
        return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                  absl::StrCat("C code reads an object of type ", Py_TYPE(o)->tp_name));
      }
      t.compared = true;
      if (IsMesh(object)) reads_.AddGuard(t.source, GuardKind::kIdentity, t.original);  // all that torch's code reads
      return reads_.GuardProtocolMethods(Py_TYPE(o));
    case TrackedKind::kView:
      t.compared = true;
      return PrepareNative(private_api::ViewedBy(o), allow_instances);
    case TrackedKind::kOpaque:
      if (Py_TYPE(o) == AutogradEngineType() || IsRangeOrSlice(object)) return true;
      // Of a marker nothing is known but which it is, and the graph draws from this very generator.
      if (t.source != kNoSource && (Py_TYPE(o) == &PyBaseObject_Type || (for_torch_ && IsTorchGenerator(object)) ||
                                    (IsStructSequenceType(Py_TYPE(o)) && IsTupleOfLeaves(object)))) {
        reads_.AddGuard(t.source, GuardKind::kIdentity, t.original);
        return true;
      }
      return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                                absl::StrCat("C code reads an object of type ", Py_TYPE(o)->tp_name));
    case TrackedKind::kTensor:
    case TrackedKind::kList:
    case TrackedKind::kTuple:
    case TrackedKind::kDict:
    case TrackedKind::kDeque:
    case TrackedKind::kInstanceDict:
      return contents_.Realise(t, true) && (t.attributes == nullptr || PrepareContainerOfClass(t, allow_instances));
    case TrackedKind::kSet:
      if (!contents_.Realise(t, true)) return false;
      reads_.GuardSetLayout(t);
      return t.attributes == nullptr || PrepareContainerOfClass(t, allow_instances);
  }
  return false;
}

// C code that asks it for a method, as dict.update() does for keys(), looks at the shadow, which has no attributes.
bool NativeArguments::PrepareContainerOfClass(Tracked& t, bool allow_instances) {
  PyTypeObject* type = t.original.type();
  if (!IsPythonClass(type)) return true;
  bool plain = allow_instances;
  for (const char* name : {"keys", "items", "values", "get"}) {
    const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
    reads_.LookupInType(type, key);
    const std::optional<Value> own = contents_.OwnAttribute(t, key);
    if (own && !*own) return false;
    plain = plain && !own;
  }
  if (!plain) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                              absl::StrCat("C code reads an object of type ", type->tp_name));
  }
  t.compared = true;
  return reads_.GuardProtocolMethods(type);
}

namespace {
// Symbolic numbers have SymInts in their places in these (TorchArguments).
bool IsSizedForTorch(PyObject* o) { return PyTuple_CheckExact(o) || PyList_CheckExact(o) || PySlice_Check(o); }

// Its values, and what makes those that are missing.
std::vector<PyObject*> PartsOfDict(BorrowedRef dict) {
  std::vector<PyObject*> parts;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) parts.push_back(value);
  if (const BorrowedRef factory = IsDefaultDict(dict) ? RawFactoryOf(dict) : BorrowedRef())
    parts.push_back(factory.get());
  return parts;
}

void PinNumbersIn(ReadJournal& reads, BorrowedRef object, int depth = 0) {
  constexpr int kDeepest = 20;
  PyObject* o = object;
  if (IsLeaf(object)) reads.PinNumber(object);
  if (depth == kDeepest) return;
  if (PyDict_Check(o)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value) != 0;) PinNumbersIn(reads, value, depth + 1);
    return;
  }
  if (!PyList_Check(o) && !PyTuple_Check(o)) return;  // of others each is prepared
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PinNumbersIn(reads, PySequence_Fast_GET_ITEM(o, i), depth + 1);
  }
}
}  // namespace

bool NativeArguments::PrepareContents(BorrowedRef object, bool tracked, bool allow_instances) {
  PyObject* o = object;
  if (keeps_numbers_ && !IsSizedForTorch(o)) PinNumbersIn(reads_, object);
  if (PyDict_Check(o)) PinKeys(reads_, object);
  if (!tracked && PyDictKeys_Check(o)) PinKeys(reads_, private_api::DictOfView(o));
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      const BorrowedRef item(PySequence_Fast_GET_ITEM(o, i));  // null: zip_longest() gave up an iterator that has ended
      if (item && !PrepareNative(item, allow_instances)) return false;
    }
  } else if (PyObject_TypeCheck(o, DequeType())) {
    for (Py_ssize_t i = 0; i < PySequence_Size(o); ++i) {
      const Ref item = Ref::Steal(PySequence_GetItem(o, i));
      if (!item || !PrepareNative(item, allow_instances)) return false;
    }
  } else if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    for (PyObject* part : {s->start, s->stop, s->step}) {
      if (!PrepareNative(BorrowedRef(part), allow_instances)) return false;
    }
  } else if (PyDict_Check(o)) {
    for (PyObject* part : PartsOfDict(object)) {
      if (!PrepareNative(BorrowedRef(part), allow_instances)) return false;
    }
  } else if (!tracked && (PyDictValues_Check(o) || PyDictItems_Check(o))) {
    return PrepareNative(private_api::DictOfView(o), allow_instances);
  } else if (!tracked && IsNativeIterator(object)) {
    for (PyObject* part : ReferentsOf(object)) {
      if (!PrepareNative(BorrowedRef(part), allow_instances)) return false;
    }
  } else if (!tracked && (Py_TYPE(o) == AttrGetterType() || Py_TYPE(o) == MethodCallerType())) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat("C code calls ", Py_TYPE(o)->tp_name));
  } else if (!tracked && (IsTemplate(object) || IsInterpolation(object) || IsTemplateIterator(object))) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a template string");
  } else if (!tracked && PyWeakref_Check(o)) {
    // Its hash and what it is equal to are the object's.
    const Tracked* target = objects_.Find(private_api::Referent(o));
    if (target != nullptr && target->source != kNoSource && IsKnownByAddress(target->original)) {
      reads_.AddGuard(target->source, GuardKind::kIdentity, target->original);
      return true;
    }
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "C code reads a weak reference that was made here");
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
  }
  if (tracked || !IsPythonClass(Py_TYPE(o)) || PyType_Check(o) || PyTuple_Check(o)) return true;
  if (!allow_instances && !IsNumberOrTextClass(Py_TYPE(o)) && !PyDict_Check(o)) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                              absl::StrCat("C code reads an object of type ", Py_TYPE(o)->tp_name));
  }
  return reads_.GuardProtocolMethods(Py_TYPE(o));
}

// That of numpy's numbers depends on np.set_printoptions, which no guard compares.
bool NativeArguments::HaveTextOfTheirOwn(absl::Span<const ValueView> values) {
  for (const ValueView& v : values) {
    if (HoldsNumpyNumber(v.object)) {
      return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "the text of a number of numpy");
    }
  }
  return true;
}

}  // namespace framefuse
