#include "symbolic/capture/capture_protocols.h"

#include "symbolic/journals/weak_targets.h"

namespace framefuse {

CaptureProtocols::CaptureProtocols(PyThreadState* thread, frame_ops::Frame* real_frame, const CaptureOptions& options)
    : journals_(control, real_frame, options), entry_(journals_, *this, thread) {
  control.serves_pending_work = false;
}

StopAction CaptureProtocols::OnStop(Activation& act) { return journals_.breaks().OnStop(act); }
bool CaptureProtocols::BeforeDrop(Activation&, ValueView old) { return journals_.writes().BeforeDrop(old); }
bool CaptureProtocols::Unsupported(Activation& act, const char* opcode_name) {
  const bool suspends = act.completion == Completion::kRoot && frame_ops::IsGeneratorCode(frame_ops::Code(act.frame));
  return journals_.breaks().BreakFalse(suspends ? GraphBreakKind::kSuspends : GraphBreakKind::kUnsupportedOpcode,
                                       opcode_name);
}
void CaptureProtocols::SeeWhetherBound(Activation& act, int slot) { return names_.SeeWhetherBound(act, slot); }
Value CaptureProtocols::AdoptSlot(Activation& act, int slot) { return names_.AdoptSlot(act, slot); }
Value CaptureProtocols::LoadGlobal(Activation& act, BorrowedRef name) { return names_.LoadGlobal(act, name); }
bool CaptureProtocols::StoreGlobal(Activation& act, BorrowedRef name, ValueView value) {
  return names_.StoreGlobal(act, name, value);
}
bool CaptureProtocols::DeleteGlobal(Activation& act, BorrowedRef name) { return names_.DeleteGlobal(act, name); }
Value CaptureProtocols::LoadName(Activation& act, BorrowedRef name) { return names_.LoadName(act, name); }
bool CaptureProtocols::StoreName(Activation& act, BorrowedRef name, ValueView value) {
  return names_.StoreName(act, name, value);
}
bool CaptureProtocols::DeleteName(Activation& act, BorrowedRef name) { return names_.DeleteName(act, name); }
Value CaptureProtocols::MakeCell(Activation& act, int slot, ValueView initial) {
  return names_.MakeCell(act, slot, initial);
}
Value CaptureProtocols::LoadDeref(Activation& act, int slot) { return names_.LoadDeref(act, slot); }
bool CaptureProtocols::StoreDeref(Activation& act, int slot, ValueView value) {
  return names_.StoreDeref(act, slot, value);
}
bool CaptureProtocols::DeleteDeref(Activation& act, int slot) { return names_.DeleteDeref(act, slot); }
Value CaptureProtocols::LoadClassDeref(Activation& act, int slot) { return names_.LoadClassDeref(act, slot); }
Value CaptureProtocols::LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot) {
  return names_.LoadFromDictOrDeref(act, mapping, slot);
}
Value CaptureProtocols::LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name) {
  return names_.LoadFromDictOrGlobals(act, mapping, name);
}
Value CaptureProtocols::LoadBuildClass(Activation& act) { return names_.LoadBuildClass(act); }
Value CaptureProtocols::LoadLocals(Activation& act) { return names_.LoadLocals(act); }
bool CaptureProtocols::SetupAnnotations(Activation& act) { return names_.SetupAnnotations(act); }
Value CaptureProtocols::LoadAttr(Activation& act, ValueView owner, BorrowedRef name) {
  if (WeakTargets targets(journals_); targets.IsProxy(owner)) {
    const Value target = targets.BehindProxy(owner);
    return target ? attributes_.LoadAttr(act, target, name) : Value();
  }
  return attributes_.LoadAttr(act, owner, name);
}
Value CaptureProtocols::LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self) {
  if (WeakTargets targets(journals_); targets.IsProxy(owner)) {
    const Value target = targets.BehindProxy(owner);
    return target ? attributes_.LoadMethod(act, target, name, self) : Value();
  }
  return attributes_.LoadMethod(act, owner, name, self);
}
Value CaptureProtocols::LoadSuperAttr(Activation& act, ValueView global_super, ValueView cls, ValueView self,
                                      BorrowedRef name, bool two_argument, bool, Value*) {
  return attributes_.of_super().Load(act, global_super, cls, self, name, two_argument);
}
bool CaptureProtocols::StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) {
  if (WeakTargets targets(journals_); targets.IsProxy(owner)) {
    const Value target = targets.BehindProxy(owner);
    return target && attribute_writes_.StoreAttr(act, target, name, value);
  }
  return attribute_writes_.StoreAttr(act, owner, name, value);
}
bool CaptureProtocols::DeleteAttr(Activation& act, ValueView owner, BorrowedRef name) {
  if (WeakTargets targets(journals_); targets.IsProxy(owner)) {
    const Value target = targets.BehindProxy(owner);
    return target && attribute_writes_.DeleteAttr(act, target, name);
  }
  return attribute_writes_.DeleteAttr(act, owner, name);
}
Value CaptureProtocols::Unary(Activation& act, UnaryOp op, ValueView v) { return operators_.Unary(act, op, v); }
Value CaptureProtocols::Binary(Activation& act, int nb_op, ValueView left, ValueView right) {
  return operators_.Binary(act, nb_op, left, right);
}
Value CaptureProtocols::Compare(Activation& act, int py_op, ValueView left, ValueView right) {
  return operators_.Compare(act, py_op, left, right);
}
Truth CaptureProtocols::Is(Activation& act, ValueView left, ValueView right) { return truths_.Is(act, left, right); }
Truth CaptureProtocols::Contains(Activation& act, ValueView item, ValueView container) {
  return truths_.Contains(act, item, container);
}
Truth CaptureProtocols::IsTrue(Activation& act, ValueView v) { return truths_.IsTrue(act, v); }
std::optional<bool> CaptureProtocols::TruthOfAttr(Activation& act, ValueView owner, BorrowedRef name) {
  return truths_.TruthOfAttr(act, owner, name);
}
Truth CaptureProtocols::IsNone(Activation& act, ValueView v) { return truths_.IsNone(act, v); }
Value CaptureProtocols::GetItem(Activation& act, ValueView container, ValueView key) {
  return items_.GetItem(act, container, key);
}
bool CaptureProtocols::SetItem(Activation& act, ValueView container, ValueView key, ValueView value) {
  return items_.SetItem(act, container, key, value);
}
bool CaptureProtocols::DeleteItem(Activation& act, ValueView container, ValueView key) {
  return items_.DeleteItem(act, container, key);
}
Value CaptureProtocols::Call(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                             BorrowedRef kwnames) {
  return calls_.Call(act, callable, args, kwnames);
}
Value CaptureProtocols::CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs_or_null) {
  return calls_.CallEx(act, callable, args, kwargs_or_null);
}
Value CaptureProtocols::GetIter(Activation& act, ValueView v) { return iteration_.GetIter(act, v); }
Value CaptureProtocols::GetYieldFromIter(Activation& act, ValueView v) { return iteration_.GetYieldFromIter(act, v); }
ForIterOutcome CaptureProtocols::ForIter(Activation& act, ValueView iterator, Value* item) {
  return iteration_.ForIter(act, iterator, item);
}
SendOutcome CaptureProtocols::Send(Activation& act, ValueView receiver, ValueView sent, Value* result) {
  return iteration_.Send(act, receiver, sent, result);
}
bool CaptureProtocols::UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) {
  return iteration_.UnpackSequence(act, v, out);
}
bool CaptureProtocols::UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out) {
  return iteration_.UnpackEx(act, v, before, after, out);
}
Value CaptureProtocols::BuildTuple(Activation& act, absl::Span<const ValueView> items) {
  return building_.BuildTuple(act, items);
}
Value CaptureProtocols::BuildList(Activation& act, absl::Span<const ValueView> items) {
  return building_.BuildList(act, items);
}
Value CaptureProtocols::BuildSet(Activation& act, absl::Span<const ValueView> items) {
  return building_.BuildSet(act, items);
}
Value CaptureProtocols::BuildMap(Activation& act, absl::Span<const ValueView> keys_and_values) {
  return building_.BuildMap(act, keys_and_values);
}
Value CaptureProtocols::BuildString(Activation& act, absl::Span<const ValueView> parts) {
  return building_.BuildString(act, parts);
}
Value CaptureProtocols::BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step_or_null) {
  return building_.BuildSlice(act, start, stop, step_or_null);
}
Value CaptureProtocols::BuildInterpolation(Activation& act, ValueView v, BorrowedRef text, int conversion,
                                           ValueView format_or_null) {
  return building_.BuildInterpolation(act, v, text, conversion, format_or_null);
}
Value CaptureProtocols::BuildTemplate(Activation& act, BorrowedRef strings, BorrowedRef interpolations) {
  return building_.BuildTemplate(act, strings, interpolations);
}
bool CaptureProtocols::ListAppend(Activation& act, BorrowedRef list, ValueView item) {
  return building_.ListAppend(act, list, item);
}
bool CaptureProtocols::SetAdd(Activation& act, BorrowedRef set, ValueView item) {
  return building_.SetAdd(act, set, item);
}
bool CaptureProtocols::MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value) {
  return building_.MapAdd(act, map, key, value);
}
bool CaptureProtocols::ListExtend(Activation& act, BorrowedRef list, ValueView iterable) {
  return building_.ListExtend(act, list, iterable);
}
bool CaptureProtocols::SetUpdate(Activation& act, BorrowedRef set, ValueView iterable) {
  return building_.SetUpdate(act, set, iterable);
}
bool CaptureProtocols::DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping, BorrowedRef callable_or_null) {
  return building_.DictUpdate(act, dict, mapping, callable_or_null);
}
Value CaptureProtocols::ListToTuple(Activation& act, ValueView list) { return building_.ListToTuple(act, list); }
Value CaptureProtocols::ConvertValue(Activation& act, ValueView v, int conversion) {
  return text_.ConvertValue(act, v, conversion);
}
Value CaptureProtocols::FormatValue(Activation& act, ValueView v, int conversion, ValueView spec_or_null) {
  return text_.FormatValue(act, v, conversion, spec_or_null);
}
Value CaptureProtocols::MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults,
                                     ValueView annotations, ValueView closure) {
  return building_.MakeFunction(act, code, defaults, kwdefaults, annotations, closure);
}
bool CaptureProtocols::SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part) {
  return building_.SetFunctionAttribute(act, function, flag, part);
}
bool CaptureProtocols::BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered) {
  return statements_.BeforeWith(act, manager, exit, entered);
}
Value CaptureProtocols::LoadSpecial(Activation& act, ValueView owner, frame_ops::SpecialMethod which) {
  return statements_.LoadSpecial(act, owner, which);
}
Value CaptureProtocols::CallExit(Activation& act, ValueView exit, ValueView self, BorrowedRef type,
                                 BorrowedRef exception, BorrowedRef traceback) {
  return statements_.CallExit(act, exit, self, type, exception, traceback);
}
Value CaptureProtocols::GetLength(Activation& act, ValueView v) { return items_.GetLength(act, v); }
Truth CaptureProtocols::MatchMapping(Activation& act, ValueView v) { return statements_.MatchMapping(act, v); }
Truth CaptureProtocols::MatchSequence(Activation& act, ValueView v) { return statements_.MatchSequence(act, v); }
Value CaptureProtocols::MatchKeys(Activation& act, ValueView subject, ValueView keys) {
  return statements_.MatchKeys(act, subject, keys);
}
Value CaptureProtocols::MatchClass(Activation& act, ValueView subject, ValueView cls, int positional, ValueView names) {
  return statements_.MatchClass(act, subject, cls, positional, names);
}
Truth CaptureProtocols::ExceptionMatches(Activation& act, ValueView exception, ValueView type) {
  return raising_.ExceptionMatches(act, exception, type);
}
bool CaptureProtocols::ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match,
                                           Value* rest) {
  return raising_.ExceptionGroupMatch(act, exception, type, match, rest);
}
Value CaptureProtocols::PrepareReraiseStar(Activation& act, ValueView original, ValueView results) {
  return raising_.PrepareReraiseStar(act, original, results);
}
bool CaptureProtocols::BeforeHandling(Activation& act) { return raising_.BeforeHandling(act); }
bool CaptureProtocols::AfterHandling(Activation& act, ValueView previous) {
  return raising_.AfterHandling(act, previous);
}
void CaptureProtocols::Raise(Activation& act, ValueView exception_or_null, ValueView cause_or_null) {
  return raising_.Raise(act, exception_or_null, cause_or_null);
}
Value CaptureProtocols::ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) {
  return statements_.ImportName(act, name, fromlist, level);
}
Value CaptureProtocols::ImportFrom(Activation& act, ValueView module, BorrowedRef name) {
  return statements_.ImportFrom(act, module, name);
}
bool CaptureProtocols::ImportStar(Activation& act, ValueView module) { return statements_.ImportStar(act, module); }
Value CaptureProtocols::Intrinsic1(Activation& act, int which, ValueView v) {
  return statements_.Intrinsic1(act, which, v);
}
Value CaptureProtocols::Intrinsic2(Activation& act, int which, ValueView a, ValueView b) {
  return statements_.Intrinsic2(act, which, a, b);
}

}  // namespace framefuse
