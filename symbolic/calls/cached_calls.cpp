#include "symbolic/calls/cached_calls.h"

#include <algorithm>
#include <vector>

#include "frame_eval/versions/lru_cache.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/hook_calls.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

// Whether objects that are equal are alike to every library function.
bool HasPlainKey(BorrowedRef arg) {
  if (PyTuple_CheckExact(arg.get())) return AllLeaves(arg.get());
  return IsLeaf(arg) || PyType_Check(arg.get()) || IsHashedByIdentity(arg.type());
}

}  // namespace

CachedCalls::CachedCalls(Journals& journals, CallEvaluator& calls)
    : frames_(journals.frames()),
      breaks_(journals.breaks()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      contents_(journals.contents()),
      writes_(journals.writes()),
      calls_(calls),
      fx_(journals.fx()),
      keys_(journals, calls),
      tracer_(journals.tracer()) {}

// Whether the innermost frame that is not the standard library's is torch's.
bool CachedCalls::IsForTorch() const {
  for (auto frame = frames_.all().rbegin(); frame != frames_.all().rend(); ++frame) {
    PyCodeObject* code = frame_ops::Code((*frame)->frame);
    if (IsTorchCode(code)) return true;
    if (!IsSkippedCode(code)) return false;
  }
  return false;
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
  if (!keys_.Collect(act, args, kwnames, &call) || !keys_.FindAmong(act, writes_.calls(), &call)) return Value();
  const Earlier earlier = FindEarlier(call, frame_ops::LruCacheMaximum(t->original));
  if (earlier.same != nullptr) {
    call.result = earlier.same->result;
    writes_.AddCall(std::move(call));
    return writes_.calls().back().result;
  }
  const bool is_new = std::any_of(args.begin(), args.end(), [&](const ValueView& a) { return keys_.IsNewTensor(a); });
  if (!earlier.is_dropped && !is_new) {
    if (!keys_.FindInCache(act, &call)) return Value();
    const SourceId source = reads_.sources().Intern(SourceKind::kCachedResult, t->source, 0, call.key);
    PyObject* found = frame_ops::LruCachedResult(t->original, call.key);
    if (found != nullptr) {
      if (earlier.may_have_dropped) {  // how full it is is not guarded
        return breaks_.Break(GraphBreakKind::kSideEffectCall, "a cached function that may have dropped its result");
      }
      Value v = objects_.Adopt(found, source);
      if (v) reads_.Consume(v);
      call.result = v;
      writes_.AddCall(std::move(call));
      return v;
    }
    reads_.AddGuard(source, GuardKind::kNull, nullptr);
  }
  return MissCached(act, std::move(call), function, args, kwnames);
}

CachedCalls::Earlier CachedCalls::FindEarlier(const CachedCall& call, Py_ssize_t maximum) const {
  const auto is_same = [](const CachedCall& a, const CachedCall& b) { return CachedKeys::AreSame(a.key, b.key); };
  Earlier earlier;
  earlier.is_dropped = maximum == 0;
  std::vector<const CachedCall*> distinct;  // touched after what is looked at
  for (auto c = writes_.calls().rbegin(); c != writes_.calls().rend(); ++c) {
    if (c->wrapper.get() != call.wrapper.get() || !c->key) continue;
    earlier.may_have_dropped = earlier.may_have_dropped || (c->missed && maximum >= 0);
    if (earlier.same != nullptr || earlier.is_dropped) continue;
    if (is_same(*c, call)) {
      earlier.same = &*c;
      continue;
    }
    const auto is_same_as_c = [&](const CachedCall* d) { return is_same(*d, *c); };
    if (maximum < 0 || std::any_of(distinct.begin(), distinct.end(), is_same_as_c)) continue;
    distinct.push_back(&*c);
    earlier.is_dropped = static_cast<Py_ssize_t>(distinct.size()) == maximum;
  }
  return earlier;
}

Value CachedCalls::MissCached(Activation& act, CachedCall call, BorrowedRef function, absl::Span<const ValueView> args,
                              BorrowedRef kwnames) {
  const Ref droppable = frame_ops::LruCacheDroppable(objects_.Find(call.wrapper)->original);
  if (!droppable) return Value();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(droppable.get()); ++i) {
    if (!writes_.BeforeEnd(PyList_GET_ITEM(droppable.get(), i))) return Value();
  }
  Value v = calls_.CallWith(act, objects_.Adopt(function, reads_.ConstantSource(function)), args, kwnames,
                            Completion::kCallback);
  if (!v) return breaks_.Break(GraphBreakKind::kSideEffectCall, "a cached function that raises");
  if (IsLeaf(v.object)) reads_.Consume(v);
  call.missed = true;
  call.result = v;
  writes_.AddCall(std::move(call));
  return v;
}

namespace {

// A call that notes its arguments by weak references. One that raises does so at its place, before what comes after it.
bool MayRaise(BorrowedRef callable, absl::Span<const ValueView> args) {
  if (!PyFunction_Check(callable.get())) return true;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable.get()));
  const auto is_noted = [](const ValueView& v) { return PyType_SUPPORTS_WEAKREFS(Py_TYPE(v.object.get())); };
  return static_cast<std::size_t>(code->co_argcount) != args.size() || !std::all_of(args.begin(), args.end(), is_noted);
}

}  // namespace

Value CachedCalls::Defer(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (kwnames || MayRaise(callable.object, args)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  CachedCall call;
  call.wrapper = Ref::Create(callable.object);
  call.args = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  for (std::size_t i = 0; i < args.size(); ++i) {
    reads_.Consume(args[i]);
    PyTuple_SET_ITEM(call.args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i].object.get()));
  }
  call.deferred = true;
  writes_.AddCall(std::move(call));
  return Value{Ref::Create(Py_None), kNoSource};
}

std::optional<Value> CachedCalls::DeferHook(BorrowedRef function, absl::Span<const ValueView> args) {
  // Behind an FX graph torch's own tools may make one node of all of it: nothing comes by the tensor then.
  if (tracer_.RecordsBackward() || fx_.keep_values()) return std::nullopt;
  return framefuse::DeferHook(objects_, reads_, writes_, function, args);
}

Value CachedCalls::CallDispatch(Activation& act, ValueView function, absl::Span<const ValueView> args) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.object.get());
  const Py_ssize_t index = IndexInClosure(f, "registry");
  if (index < 0) return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(function.object));
  const Tracked* t = objects_.Find(function.object);
  const SourceId source = t != nullptr ? t->source : reads_.ConstantSource(function.object);
  const Value cell = objects_.Adopt(
      PyTuple_GET_ITEM(f->func_closure, index),
      reads_.sources().Intern(SourceKind::kFunctionCell, source, static_cast<std::int32_t>(index), nullptr));
  Tracked* known = cell ? objects_.Find(cell.object) : nullptr;
  if (known == nullptr) return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(function.object));
  const std::optional<Value> registry = contents_.InCell(*known);
  if (!registry) return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(function.object));
  if (!*registry) return Value();
  return calls_.CallWith(act, ValueView(FunctionOf(StandIn::kDispatched), kNoSource), WithFirst(*registry, args),
                         nullptr, Completion::kCallback);
}

}  // namespace framefuse
