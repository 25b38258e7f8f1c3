#include "symbolic/journals/read_journal.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "guards/dict_lookup.h"
#include "guards/held.h"
#include "guards/leaf/tensor.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/numpy_scalars.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

ReadJournal::ReadJournal(FrameStack& frames, BreakController& breaks, const BackwardPhase& backward,
                         MadeClasses& classes, tracing::Tracer& tracer)
    : frames_(frames), breaks_(breaks), backward_(backward), classes_(classes), tracer_(tracer), guards_(&sources_) {
  constexpr std::size_t kExpectedLookups = 96;  // of a small model
  type_lookups_.reserve(kExpectedLookups);
  guards_.AddGlobalState();
}

SourceId ReadJournal::ConstantSource(BorrowedRef object) {
  return sources_.Intern(SourceKind::kConstant, kNoSource, 0, object);
}

SourceId ReadJournal::ElementSource(BorrowedRef object) {
  return sources_.Intern(SourceKind::kConstant, kNoSource, 1, object);
}

SourceId ReadJournal::TypeAttr(PyTypeObject* type, BorrowedRef name) {
  return sources_.Intern(SourceKind::kTypeAttr, ConstantSource(reinterpret_cast<PyObject*>(type)), 0, name);
}

std::optional<SourceId> ReadJournal::Rebase(SourceId source) const {
  return classes_.empty() ? source : classes_.Rebase(source);
}

void ReadJournal::AddGuard(SourceId source, GuardKind kind, BorrowedRef expected, int aux) {
  if (!classes_.empty()) {
    const std::optional<SourceId> rebased = classes_.Rebase(source);
    if (!rebased || classes_.IsMade(expected)) return;  // what was there before cannot be, or hold, such a class
    source = *rebased;
  }
  guards_.Add(source, kind, expected, frames_.Here(), aux);
}

void ReadJournal::AddLength(SourceId source, std::int64_t length) {
  Ref& number = lengths_[source];
  if (number) tracer_.numbers().Pin(number);
  number = Ref();
  guards_.AddLength(source, length, frames_.Here());
}

bool ReadJournal::IsLengthGuarded(SourceId source) const {
  const auto found = lengths_.find(source);
  return found != lengths_.end() && !found->second;
}

void ReadJournal::AddTensor(SourceId source, BorrowedRef tensor) { guards_.AddTensor(source, tensor, frames_.Here()); }

void ReadJournal::GuardSetLayout(Tracked& set) {
  if (set.layout_guarded) return;
  set.layout_guarded = true;
  AddGuard(set.source, GuardKind::kSetLayout,
           PyAnySet_CheckExact(set.original.get()) ? set.original : PlainCopy(set.original));
}

void ReadJournal::GuardTypeOfLeaf(ValueView v) {
  if (v.source == kNoSource || !IsLeaf(v.object)) return;
  AddGuard(v.source, GuardKind::kTypeIs, reinterpret_cast<PyObject*>(v.object.type()));
}

void ReadJournal::GuardNothingHandled() {
  AddGuard(sources_.Intern(SourceKind::kHandledException, kNoSource, 0, nullptr), GuardKind::kNull, nullptr);
}

// ---------------------------------------------------------------- leaves

bool ReadJournal::IsNewsOfLeaf(SourceId source, LeafFact fact) {
  const auto i = static_cast<std::size_t>(source);
  if (i >= leaf_facts_.size()) leaf_facts_.resize(std::max<std::size_t>(2 * i, 1024));
  const bool news = (leaf_facts_[i] & fact) == 0;
  leaf_facts_[i] |= fact;
  return news;
}

void ReadJournal::NoteLeaf(SourceId source) {
  if (IsNewsOfLeaf(source, kRead)) leaves_.push_back(source);
}

namespace {
bool IsNotANumber(PyObject* o) {
  if (PyFloat_Check(o)) return std::isnan(PyFloat_AS_DOUBLE(o));
  if (!PyComplex_Check(o)) return false;
  const Py_complex value = PyComplex_AsCComplex(o);
  return std::isnan(value.real) || std::isnan(value.imag);
}
}  // namespace

namespace {
// Or a torch.Size with such numbers.
bool IsSymbolicLeaf(const tracing::Numbers& numbers, BorrowedRef leaf) {
  return numbers.IsSymbolic(leaf) || (PyTuple_Check(leaf.get()) && numbers.Holds(leaf));
}
}  // namespace

void ReadJournal::PinNumber(BorrowedRef object) {
  if (!tracer_.numbers().none()) tracer_.numbers().Pin(object);
}

void ReadJournal::Consume(ValueView v) {
  PinNumber(v.object);
  Move(v);
}

void ReadJournal::Move(ValueView v) {
  if (v.source == kNoSource || !IsLeaf(v.object) || !MayRead(v.source)) return;
  PyObject* o = v.object;
  if (sources_[v.source].kind == SourceKind::kConstant) return;
  if (!IsNewsOfLeaf(v.source, kConsumed)) {
    // Two objects stand for it, where it was symbolic until it was looked at.
    if (IsNumpyNumberType(v.object.type())) consumed_leaves_.try_emplace(o, 1, v.source);
    return;
  }
  if (IsSymbolicLeaf(tracer_.numbers(), v.object)) {  // the guard on sizes says what is relied on
    consumed_leaves_[o].push_back(v.source);
    number_sources_.insert(v.source);
    if (const BorrowedRef original = tracer_.numbers().OriginalOf(o)) consumed_leaves_[original].push_back(v.source);
    return;
  }
  const bool singleton = o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || PyCode_Check(o);
  // Containers look whether it is the same object first, and another NaN is equal to none.
  AddGuard(v.source, singleton || IsNotANumber(o) ? GuardKind::kIdentity : GuardKind::kEquals, v.object);
  if (!singleton) consumed_leaves_[o].push_back(v.source);
}

namespace {
// There is one object a value.
bool ValueDecidesIdentity(BorrowedRef leaf) {
  if (PyLong_CheckExact(leaf.get())) {
    int overflow = 0;
    const long value = PyLong_AsLongAndOverflow(leaf, &overflow);
    return overflow == 0 && value >= -5 && value <= 256;
  }
  return !PyFloat_CheckExact(leaf.get()) && !PyUnicode_CheckExact(leaf.get()) && !PyBytes_CheckExact(leaf.get()) &&
         !PyComplex_CheckExact(leaf.get()) && !IsNumpyNumberType(leaf.type()) && !PyTuple_Check(leaf.get()) &&
         !IsTorchDevice(leaf);
}
}  // namespace

// A leaf that was consumed goes on without its source (through a cell, an item, a caller), and several sources may lead
// to one object: all that may be meant are pinned.
bool ReadJournal::GuardLostIdentity(ValueView left, ValueView right, bool same) {
  const auto pin = [&](ValueView leaf) {
    if (leaf.source != kNoSource) AddGuard(leaf.source, GuardKind::kIdentity, leaf.object);
    const auto consumed = consumed_leaves_.find(leaf.object.get());
    if (consumed == consumed_leaves_.end()) return leaf.source != kNoSource;
    for (SourceId source : consumed->second) AddGuard(source, GuardKind::kIdentity, leaf.object);
    return true;
  };
  const bool left_outside = pin(left);
  const bool right_outside = pin(right);
  if (same || left_outside == right_outside) return true;
  return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "the identity of equal objects, one made here");
}

SourceId ReadJournal::SourceOfConsumed(BorrowedRef leaf) const {
  const auto consumed = consumed_leaves_.find(leaf.get());
  if (consumed == consumed_leaves_.end()) return kNoSource;
  if (IsSymbolicLeaf(tracer_.numbers(), leaf)) return consumed->second.front();
  if (ValueDecidesIdentity(leaf)) return kNoSource;
  if (PyUnicode_CheckExact(leaf.get()) && PyUnicode_CHECK_INTERNED(leaf.get())) return kNoSource;
  // A constant of the code may be the object that stands where a symbolic number is read.
  const auto& sources = consumed->second;
  const auto fixed = [&](SourceId source) { return !number_sources_.contains(source); };
  const auto source = std::find_if(sources.begin(), sources.end(), fixed);
  // That of numpy's which was symbolic until it was looked at is an object of its own.
  if (source == sources.end()) return IsNumpyNumberType(leaf.type()) ? sources.front() : kNoSource;
  return *source;
}

SourceId ReadJournal::SourceToLoad(BorrowedRef leaf) {
  const SourceId source = SourceOfConsumed(leaf);
  if (source == kNoSource || IsSymbolicLeaf(tracer_.numbers(), leaf)) return source;
  const bool number = number_sources_.contains(source);
  for (const SourceId other : consumed_leaves_.find(leaf.get())->second) {
    if (other == source || number_sources_.contains(other) != number) continue;
    AddGuard(source, GuardKind::kSameAs, nullptr, other);
  }
  return source;
}

// Equal leaves may or may not be one object: which one it was is a fact of its own, unless value decides identity.
bool ReadJournal::GuardLacksKey(SourceId dict, BorrowedRef key) {
  if (DictKey(key).mode == DictKey::Mode::kOpaque) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject,
                              "a key that a dict lacks, with a hash or equality of its own");
  }
  AddGuard(dict, GuardKind::kLacksKey, key);
  return true;
}

bool ReadJournal::GuardLeafIdentity(ValueView left, ValueView right, bool same) {
  if (left.object.type() != right.object.type() || !IsLeaf(left.object) || ValueDecidesIdentity(left.object)) {
    return true;
  }
  if (!same) {
    const int equal = PyObject_RichCompareBool(left.object, right.object, Py_EQ);
    if (equal < 0) return false;
    const bool nan = PyFloat_CheckExact(left.object.get()) && std::isnan(PyFloat_AS_DOUBLE(left.object.get())) &&
                     std::isnan(PyFloat_AS_DOUBLE(right.object.get()));
    if (equal == 0 && !nan) return true;
  }
  if (left.source != kNoSource && right.source != kNoSource) {
    if (left.source != right.source) {
      AddGuard(left.source, same ? GuardKind::kSameAs : GuardKind::kDistinctFrom, nullptr, right.source);
    }
    return true;
  }
  return GuardLostIdentity(left, right, same);
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

BorrowedRef ReadJournal::LookupInType(PyTypeObject* type, BorrowedRef name) {
  if (classes_.IsMade(type)) return classes_.Lookup(type, name);
  const auto key = std::make_pair(type, name.get());
  const auto it = type_lookups_.find(key);
  if (it != type_lookups_.end()) return it->second.found;
  PyObject* found = frame_ops::TypeLookup(type, name);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    // What a class made in a function has may refer to it: an entry that held it would keep the class alive.
    const bool version = found != nullptr && PyObject_IS_GC(found) && !PyType_Check(found) && !Held(found).weak() &&
                         IsOfLocalClass(type, name, found);
    guards_.AddTypeLookup(ConstantSource(reinterpret_cast<PyObject*>(type)), name, found, frames_.Here(),
                          version ? frame_ops::TypeVersion(type) : 0);
  }
  type_lookups_.emplace(key, TypeLookup{Ref::Create(name), Ref::Create(found)});
  return found;
}

BorrowedRef ReadJournal::LookupInType(PyTypeObject* type, const char* name) {
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
#include "symbolic/rules/protocol_methods.def"
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
bool ReadJournal::GuardProtocolMethods(PyTypeObject* type) {
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
      guards_.AddTypeLookups(ConstantSource(reinterpret_cast<PyObject*>(type)), lookups, frames_.Here(),
                             frame_ops::TypeVersion(type));
    }
  }
  if (unseen) {
    return breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, absl::StrCat("C code may call ", type->tp_name, ".",
                                                                          Utf8(unseen), ", which is no function"));
  }
  GuardClassOrder(*this, type);                // C code chooses among operands by it
  if (!made) guarded_protocols_.insert(type);  // what it has may change
  return true;
}

namespace {
// The text of an error of C code's has names of classes, which a program may change. Of the types that were looked at.
template <typename Lookups>
std::set<PyTypeObject*> ClassesNamedBy(BorrowedRef error, const Lookups& lookups) {
  std::set<PyTypeObject*> named;
  const PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(error.get())->args;
  if (args == nullptr || PyTuple_GET_SIZE(args) == 0 || !PyUnicode_CheckExact(PyTuple_GET_ITEM(args, 0))) return named;
  const std::string text = Utf8(PyTuple_GET_ITEM(args, 0));
  for (const auto& [lookup, found] : lookups) {
    if (IsPythonClass(lookup.first) && absl::StrContains(text, lookup.first->tp_name)) named.insert(lookup.first);
  }
  return named;
}
}  // namespace

void ReadJournal::GuardNamesIn(BorrowedRef error) {
  static PyObject* const kName = PyUnicode_InternFromString("__name__");
  for (PyTypeObject* type : ClassesNamedBy(error, type_lookups_)) {
    const SourceId cls = ConstantSource(reinterpret_cast<PyObject*>(type));
    AddGuard(sources_.Intern(SourceKind::kFunctionField, cls, 0, kName), GuardKind::kEquals,
             Ref::Steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), kName)));
  }
}

}  // namespace framefuse
