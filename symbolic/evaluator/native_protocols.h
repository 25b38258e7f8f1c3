// NativeProtocols: every protocol as CPython's own evaluator does it, error texts included. With it the evaluator is
// a plain Python interpreter. Also the base of tests that watch or stop a run.
// Invariant: keeps no state but Control; results have no source.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_PROTOCOLS_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_PROTOCOLS_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class NativeProtocols : public Protocols {
 public:
  StopAction OnStop(Activation& act) override;
  Value AdoptSlot(Activation& act, int slot) override;
  Value LoadGlobal(Activation& act, BorrowedRef name) override;
  bool StoreGlobal(Activation& act, BorrowedRef name, ValueView value) override;
  bool DeleteGlobal(Activation& act, BorrowedRef name) override;
  Value LoadName(Activation& act, BorrowedRef name) override;
  bool StoreName(Activation& act, BorrowedRef name, ValueView value) override;
  bool DeleteName(Activation& act, BorrowedRef name) override;
  Value LoadDeref(Activation& act, int slot) override;
  bool StoreDeref(Activation& act, int slot, ValueView value) override;
  bool DeleteDeref(Activation& act, int slot) override;
  Value MakeCell(Activation& act, int slot, ValueView initial) override;
  Value LoadClassDeref(Activation& act, int slot) override;
  Value LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot) override;
  Value LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name) override;
  Value LoadBuildClass(Activation& act) override;
  Value LoadLocals(Activation& act) override;
  bool SetupAnnotations(Activation& act) override;
  Value LoadAttr(Activation& act, ValueView owner, BorrowedRef name) override;
  Value LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self) override;
  Value LoadSuperAttr(Activation& act, ValueView global_super, ValueView cls, ValueView self, BorrowedRef name,
                      bool two_argument, bool is_method, Value* method_self) override;
  bool StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) override;
  bool DeleteAttr(Activation& act, ValueView owner, BorrowedRef name) override;
  Value Unary(Activation& act, UnaryOp op, ValueView v) override;
  Value Binary(Activation& act, int nb_op, ValueView left, ValueView right) override;
  Value Compare(Activation& act, int py_op, ValueView left, ValueView right) override;
  Truth Is(Activation& act, ValueView left, ValueView right) override;
  Truth Contains(Activation& act, ValueView item, ValueView container) override;
  Truth IsTrue(Activation& act, ValueView v) override;
  std::optional<bool> TruthOfAttr(Activation&, ValueView, BorrowedRef) override { return std::nullopt; }
  Truth IsNone(Activation& act, ValueView v) override;
  Value GetItem(Activation& act, ValueView container, ValueView key) override;
  bool SetItem(Activation& act, ValueView container, ValueView key, ValueView value) override;
  bool DeleteItem(Activation& act, ValueView container, ValueView key) override;
  Value Call(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) override;
  Value CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs_or_null) override;
  Value GetIter(Activation& act, ValueView v) override;
  Value GetYieldFromIter(Activation& act, ValueView v) override;
  ForIterOutcome ForIter(Activation& act, ValueView iterator, Value* item) override;
  SendOutcome Send(Activation& act, ValueView receiver, ValueView sent, Value* result) override;
  bool UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) override;
  bool UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out) override;
  Value BuildTuple(Activation& act, absl::Span<const ValueView> items) override;
  Value BuildList(Activation& act, absl::Span<const ValueView> items) override;
  Value BuildSet(Activation& act, absl::Span<const ValueView> items) override;
  Value BuildMap(Activation& act, absl::Span<const ValueView> keys_and_values) override;
  Value BuildString(Activation& act, absl::Span<const ValueView> parts) override;
  Value BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step_or_null) override;
  Value BuildInterpolation(Activation& act, ValueView v, BorrowedRef text, int conversion,
                           ValueView format_or_null) override;
  Value BuildTemplate(Activation& act, BorrowedRef strings, BorrowedRef interpolations) override;
  bool ListAppend(Activation& act, BorrowedRef list, ValueView item) override;
  bool SetAdd(Activation& act, BorrowedRef set, ValueView item) override;
  bool MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value) override;
  bool ListExtend(Activation& act, BorrowedRef list, ValueView iterable) override;
  bool SetUpdate(Activation& act, BorrowedRef set, ValueView iterable) override;
  bool DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping, BorrowedRef callable_or_null) override;
  Value ListToTuple(Activation& act, ValueView list) override;
  Value ConvertValue(Activation& act, ValueView v, int conversion) override;
  Value FormatValue(Activation& act, ValueView v, int conversion, ValueView spec_or_null) override;
  Value MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults, ValueView annotations,
                     ValueView closure) override;
  bool SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part) override;
  bool BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered) override;
  Value LoadSpecial(Activation& act, ValueView owner, frame_ops::SpecialMethod which) override;
  Value CallExit(Activation& act, ValueView exit, ValueView self, BorrowedRef type, BorrowedRef exception,
                 BorrowedRef traceback) override;
  Value GetLength(Activation& act, ValueView v) override;
  Truth MatchMapping(Activation& act, ValueView v) override;
  Truth MatchSequence(Activation& act, ValueView v) override;
  Value MatchKeys(Activation& act, ValueView subject, ValueView keys) override;
  Value MatchClass(Activation& act, ValueView subject, ValueView cls, int positional, ValueView names) override;
  Truth ExceptionMatches(Activation& act, ValueView exception, ValueView type) override;
  bool ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match, Value* rest) override;
  Value PrepareReraiseStar(Activation& act, ValueView original, ValueView results) override;
  void Raise(Activation& act, ValueView exception_or_null, ValueView cause_or_null) override;
  Value ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) override;
  Value ImportFrom(Activation& act, ValueView module, BorrowedRef name) override;
  bool ImportStar(Activation& act, ValueView module) override;
  Value Intrinsic1(Activation& act, int which, ValueView v) override;
  Value Intrinsic2(Activation& act, int which, ValueView a, ValueView b) override;
  bool Unsupported(Activation& act, const char* opcode_name) override;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_NATIVE_PROTOCOLS_H_
