#include "symbolic/capture/calls/cached_calls.h"

#include <algorithm>

#include "frame_eval/versions/lru_cache.h"
#include "symbolic/capture/call_arguments.h"
#include "symbolic/capture/call_rules.h"
#include "symbolic/capture/calls/call_evaluator.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/graph_break.h"
#include "symbolic/capture/journals/break_controller.h"
#include "symbolic/capture/journals/frame_stack.h"
#include "symbolic/capture/journals/journals.h"
#include "symbolic/capture/journals/native_arguments.h"
#include "symbolic/capture/journals/object_table.h"
#include "symbolic/capture/journals/read_journal.h"
#include "symbolic/capture/journals/write_journal.h"
#include "symbolic/capture/tracked.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

bool HashedByIdentity(PyTypeObject* type) {
  const bool instance =
      type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
  return instance || type == &PyFunction_Type || type == &PyType_Type;
}

bool AllLeaves(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (!IsLeaf(item) && !(PyTuple_CheckExact(item) && AllLeaves(item))) return false;
  }
  return true;
}

// Whether objects that are equal are alike to every library function.
bool HasPlainKey(BorrowedRef arg) {
  if (PyTuple_CheckExact(arg.get())) return AllLeaves(arg.get());
  return IsLeaf(arg) || PyType_Check(arg.get()) || HashedByIdentity(arg.type());
}

}  // namespace

CachedCalls::CachedCalls(Journals& journals, CallEvaluator& calls)
    : frames_(journals.frames()),
      tracer_(journals.tracer()),
      breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      calls_(calls) {}

// Whether the innermost frame that is not the standard library's is torch's.
bool CachedCalls::IsForTorch() const {
  for (auto frame = frames_.all().rbegin(); frame != frames_.all().rend(); ++frame) {
    PyCodeObject* code = frame_ops::Code((*frame)->frame);
    if (IsTorchCode(code)) return true;
    if (!IsSkippedCode(code)) return false;
  }
  return false;
}

// An argument as the cache's key has it, or null with a break: guarded by value, or by identity where that is its hash.
BorrowedRef CachedCalls::CacheKeyPart(ValueView arg) {
  if (IsLeaf(arg.object)) {
    reads_.Consume(arg);
    return arg.object;
  }
  Tracked* t = objects_.Find(arg.object);
  if (t != nullptr && t->source != kNoSource && HashedByIdentity(t->original.type())) {
    reads_.AddGuard(t->source, GuardKind::kIdentity, t->original);
    return t->original;
  }
  if (PyTuple_CheckExact(arg.object.get()) && arguments_.PrepareNative(arg) && AllLeaves(arg.object)) return arg.object;
  breaks_.Break(GraphBreakKind::kUnlistedCallable, "a cached function called with an object that has its own hash");
  return nullptr;
}

// Positional and keyword arguments: as the evaluator has them, and as the cache's key has them.
bool CachedCalls::CollectCachedArguments(absl::Span<const ValueView> args, BorrowedRef kwnames, CachedCall* call,
                                         Ref* key) {
  const auto positional = static_cast<Py_ssize_t>(PositionalCount(args, kwnames));
  call->args = Ref::Steal(PyTuple_New(positional));
  const Ref key_args = Ref::Steal(PyTuple_New(positional));
  Ref key_kwargs;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const BorrowedRef part = CacheKeyPart(args[i]);
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
  *key = frame_ops::LruCacheKey(objects_.Find(call->wrapper)->original, key_args, key_kwargs);
  return static_cast<bool>(*key);
}

Value CachedCalls::CallCached(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                              BorrowedRef kwnames) {
  const Tracked* t = objects_.Find(callable.object);
  if (!frame_ops::CanReadLruCache(callable.object)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  const Ref function = Ref::Create(frame_ops::LruCacheFunction(callable.object));
  if (PyFunction_Check(function.get()) &&
      IsSkippedCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())))) {
    // Of equal objects the cache answers with what it made of the first: typing keeps unions in another order. What
    // torch does with its own annotations does not tell them apart.
    const bool plain =
        IsForTorch() || std::all_of(args.begin(), args.end(), [](const ValueView& a) { return HasPlainKey(a.object); });
    if (!plain) return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
    return calls_.CallWith(act, objects_.Adopt(function, reads_.ConstantSource(function)), args, kwnames,
                           Completion::kCallback);
  }
  if (t == nullptr || t->source == kNoSource) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  CachedCall call;
  call.wrapper = Ref::Create(callable.object);
  Ref key;
  if (!CollectCachedArguments(args, kwnames, &call, &key)) return Value();
  int misses = 0;
  for (const CachedCall& earlier : writes_.calls()) {
    if (earlier.wrapper.get() != call.wrapper.get() || !earlier.missed_key) continue;
    ++misses;
    const int same = PyObject_RichCompareBool(earlier.missed_key, key, Py_EQ);
    if (same < 0) return Value();
    if (same == 0) continue;
    const Ref result = earlier.result;
    writes_.AddCall(std::move(call));
    return Value{result, kNoSource};
  }
  const SourceId source = reads_.sources().Intern(SourceKind::kCachedResult, t->source, 0, key);
  if (PyObject* found = frame_ops::LruCachedResult(t->original, key)) {
    Value v = objects_.Adopt(found, source);
    if (v) reads_.Consume(v);
    writes_.AddCall(std::move(call));
    return v;
  }
  reads_.AddGuard(source, GuardKind::kNull, nullptr);
  if (frame_ops::LruCacheRoom(t->original) <= misses) {
    return breaks_.Break(GraphBreakKind::kSideEffectCall, "a cached function whose cache is full");
  }
  return MissCached(act, std::move(call), std::move(key), function, args, kwnames);
}

Value CachedCalls::MissCached(Activation& act, CachedCall call, Ref key, BorrowedRef function,
                              absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const std::uint64_t writes = writes_.count();
  const int operations = tracer_.NodeCount();
  const std::size_t calls = writes_.calls().size();
  Value v = calls_.CallWith(act, objects_.Adopt(function, reads_.ConstantSource(function)), args, kwnames,
                            Completion::kCallback);
  if (breaks_.unwinding()) return Value();
  // When the entry runs the function runs again, before the entry's writes and after none of them.
  if (!v || !IsLeaf(v.object) || writes_.count() != 0 || writes != writes_.count() ||
      operations != tracer_.NodeCount() || calls != writes_.calls().size()) {
    return breaks_.Break(GraphBreakKind::kSideEffectCall,
                         "a cached function that does more than compute a number or a text");
  }
  reads_.Consume(v);
  call.missed_key = std::move(key);
  call.result = v.object;
  writes_.AddCall(std::move(call));
  return v;
}

}  // namespace framefuse
