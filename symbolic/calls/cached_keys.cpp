#include "symbolic/calls/cached_keys.h"

#include <torch/csrc/autograd/python_variable.h>

#include "frame_eval/import_module.h"
#include "frame_eval/versions/lru_cache.h"
#include "guards/immutable.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"

namespace framefuse {
namespace {

// No Python code runs for it.
std::optional<Py_hash_t> HashOf(BorrowedRef key) {
  const Py_hash_t hash = PyObject_Hash(key);
  if (hash != -1) return hash;
  PyErr_Clear();
  return std::nullopt;
}

BorrowedRef PartsOf(BorrowedRef key) { return frame_ops::IsHashedKey(key) ? BorrowedRef(frame_ops::KeyIn(key)) : key; }

}  // namespace

bool AllLeaves(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (!IsLeaf(item) && !(PyTuple_CheckExact(item) && AllLeaves(item))) return false;
  }
  return true;
}

CachedKeys::CachedKeys(Journals& journals, CallEvaluator& calls)
    : breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      calls_(calls) {}

bool CachedKeys::IsNewTensor(ValueView arg) const {
  const Tracked* t = objects_.Find(arg.object);
  return IsFakeTensor(arg.object) && Py_TYPE(arg.object.get()) == reinterpret_cast<PyTypeObject*>(THPVariableClass) &&
         (t == nullptr || t->source == kNoSource);
}

// An argument as the cache's key has it, or null with a break: guarded by value, or by identity where that is its hash.
BorrowedRef CachedKeys::PartOf(Activation& act, ValueView arg) {
  if (IsLeaf(arg.object)) {
    reads_.Consume(arg);
    return arg.object;
  }
  if (IsNewTensor(arg)) {
    std::pair<Ref, Ref>& known = stand_ins_[arg.object.get()];
    if (!known.second) {
      known = {Ref::Create(arg.object.get()),
               Ref::Steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)))};
    }
    return known.second;
  }
  Tracked* t = objects_.Find(arg.object);
  if (t != nullptr && t->source != kNoSource && IsHashedByIdentity(t->original.type())) {
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    return t->original;
  }
  const bool plain =
      IsImmutableKey(arg.object) || (PyTuple_CheckExact(arg.object.get()) && AllLeaves(arg.object.get()));
  if (plain) return arguments_.PrepareNative(arg) ? arg.object : BorrowedRef();
  return PartWithHash(act, arg);
}

BorrowedRef CachedKeys::PartWithHash(Activation& act, ValueView arg) {
  PyTypeObject* type = arg.object.type();
  const bool known = PyTuple_CheckExact(arg.object.get()) || IsPythonClass(type);
  Value hash;
  if (IsNumberOrTextClass(type) && type->tp_hash == NativeBase(type)->tp_hash) {
    if (!arguments_.PrepareNative(arg)) return nullptr;
    hash.object = Ref::Steal(PyLong_FromSsize_t(PyObject_Hash(arg.object)));
  } else if (known && !IsFakeTensor(arg.object)) {
    hash = Ask(act, "hash", absl::MakeConstSpan(&arg, 1));
  }
  if (!hash) {
    static_cast<void>(breaks_.Break(GraphBreakKind::kUnlistedCallable,
                                    "a cached function called with an object that has its own hash"));
    return nullptr;
  }
  const Tracked* t = objects_.Find(arg.object);
  const BorrowedRef part = t != nullptr ? BorrowedRef(t->original) : arg.object;
  const Py_hash_t number = PyLong_AsSsize_t(hash.object);
  hashes_[part.get()] = {Ref::Create(part.get()), frame_ops::HashedKey(part, number)};
  return part;
}

Value CachedKeys::Ask(Activation& act, const char* builtin, absl::Span<const ValueView> args) {
  static PyObject* const module = ImportModule("operator").release();
  const Ref function =
      Ref::Steal(builtin == std::string_view("hash") ? Py_NewRef(PyDict_GetItemString(PyEval_GetBuiltins(), builtin))
                                                     : PyObject_GetAttrString(module, builtin));
  const WriteJournal::Counts before = writes_.CountEffects();
  Value told = calls_.CallWith(act, ValueView(function, kNoSource), args, nullptr, Completion::kCallback);
  if (!told || !(writes_.CountEffects() == before)) return Value();
  reads_.Consume(told);
  return told;
}

bool CachedKeys::Collect(Activation& act, absl::Span<const ValueView> args, BorrowedRef kwnames, CachedCall* call) {
  const auto positional = static_cast<Py_ssize_t>(PositionalCount(args, kwnames));
  call->args = Ref::Steal(PyTuple_New(positional));
  const Ref key_args = Ref::Steal(PyTuple_New(positional));
  Ref key_kwargs;
  hashes_.clear();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const BorrowedRef part = PartOf(act, args[i]);
    if (!part) return false;
    const auto at = static_cast<Py_ssize_t>(i);
    if (at < positional) {
      PyTuple_SET_ITEM(call->args.get(), at, Py_NewRef(args[i].object.get()));
      PyTuple_SET_ITEM(key_args.get(), at, Py_NewRef(part.get()));
      continue;
    }
    if (!key_kwargs) {
      key_kwargs = Ref::Steal(PyDict_New());
      call->kwargs = Ref::Steal(PyDict_New());
    }
    PyObject* name = PyTuple_GET_ITEM(kwnames.get(), at - positional);
    PyDict_SetItem(key_kwargs, name, part);
    PyDict_SetItem(call->kwargs, name, args[i].object);
  }
  call->key = frame_ops::LruCacheKey(objects_.Find(call->wrapper)->original, key_args, key_kwargs);
  if (call->key && !hashes_.empty()) call->key = Hashed(call->key);
  return static_cast<bool>(call->key);
}

Ref CachedKeys::Hashed(BorrowedRef key) const {
  const Ref parts = Ref::Steal(PySequence_List(key));
  for (Py_ssize_t i = 0; parts && i < PyList_GET_SIZE(parts.get()); ++i) {
    const auto own = hashes_.find(PyList_GET_ITEM(parts.get(), i));
    if (own != hashes_.end()) PyList_SetItem(parts, i, Py_NewRef(own->second.second.get()));
  }
  const Ref hashed = parts ? Ref::Steal(PyList_AsTuple(parts)) : Ref();
  const std::optional<Py_hash_t> hash = hashed ? HashOf(hashed) : std::nullopt;
  return hash ? frame_ops::HashedKey(key, *hash) : Ref();
}

std::optional<bool> CachedKeys::IsEqual(Activation& act, BorrowedRef known, bool from_outside, BorrowedRef other) {
  if (!PyTuple_CheckExact(known.get()) || !PyTuple_CheckExact(other.get()) ||
      PyTuple_GET_SIZE(known.get()) != PyTuple_GET_SIZE(other.get())) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(known.get()); ++i) {
    const BorrowedRef ours(PyTuple_GET_ITEM(other.get(), i)), theirs(PyTuple_GET_ITEM(known.get(), i));
    const Tracked* t = objects_.FindByOriginal(ours);
    if (ours == theirs) {
      if (t != nullptr && t->source != kNoSource) reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
      continue;
    }
    if (IsLeaf(ours) && IsLeaf(theirs)) {
      const int equal = PyObject_RichCompareBool(theirs, ours, Py_EQ);
      if (equal > 0) continue;
      PyErr_Clear();
      return false;
    }
    const Tracked* seen = objects_.FindByOriginal(theirs);
    const bool made_here = !from_outside || IsLeaf(theirs);
    const Value stored = seen != nullptr ? Value{seen->representative, seen->source}
                         : made_here     ? Value{Ref::Create(theirs.get()), kNoSource}
                                         : objects_.Adopt(theirs, reads_.ConstantSource(theirs));
    if (!stored) return std::nullopt;
    const ValueView args[] = {stored,
                              t != nullptr ? ValueView(t->representative, t->source) : ValueView(ours, kNoSource)};
    const Value equal = Ask(act, "eq", args);
    if (!equal || !PyBool_Check(equal.object.get())) return std::nullopt;
    if (equal.object.get() == Py_False) return false;
  }
  return true;
}

bool CachedKeys::AreSame(BorrowedRef a, BorrowedRef b) {
  if (!frame_ops::IsHashedKey(a) && !frame_ops::IsHashedKey(b)) return PyObject_RichCompareBool(a, b, Py_EQ) > 0;
  return PartsOf(a) == PartsOf(b);
}

bool CachedKeys::FindAmong(Activation& act, const std::vector<CachedCall>& calls, CachedCall* call) {
  for (std::size_t i = 0; i < calls.size(); ++i) {  // a comparison adds none
    const CachedCall& c = calls[i];
    if (c.wrapper.get() != call->wrapper.get() || !c.key || c.key == call->key) continue;
    if (!frame_ops::IsHashedKey(c.key) && !frame_ops::IsHashedKey(call->key)) continue;
    const std::optional<Py_hash_t> theirs = HashOf(c.key), ours = HashOf(call->key);
    if (!theirs || !ours || *theirs != *ours) continue;
    const Ref known = c.key;
    const std::optional<bool> equal = IsEqual(act, PartsOf(known), false, PartsOf(call->key));
    if (!equal) {
      return breaks_.BreakFalse(GraphBreakKind::kUnlistedCallable, "a cached function whose keys cannot be compared");
    }
    if (!*equal) continue;
    call->key = known;
    return true;
  }
  return true;
}

bool CachedKeys::FindInCache(Activation& act, CachedCall* call) {
  if (!frame_ops::IsHashedKey(call->key)) return true;
  PyObject* const wrapper = objects_.Find(call->wrapper)->original;
  if (frame_ops::LruCachedResult(wrapper, call->key) == nullptr) return true;
  const Ref stored = Ref::Create(frame_ops::KeyMet(call->key));
  const std::optional<bool> equal = stored ? IsEqual(act, stored, true, PartsOf(call->key)) : std::nullopt;
  const std::optional<Py_hash_t> hash = HashOf(call->key);
  // An unequal one of the same hash may hide another.
  if (!equal || !*equal || !hash) {
    return breaks_.BreakFalse(GraphBreakKind::kUnlistedCallable, "a cached function whose keys cannot be compared");
  }
  call->key = frame_ops::HashedKey(stored, *hash);
  return static_cast<bool>(call->key);
}

}  // namespace framefuse
