// CaptureProtocols: what an instruction means in an attempt, for the evaluator. Each family of protocols is a class of
// its own (protocols/, calls/), which this one owns and forwards to. A family reaches another's protocols through here.
// Invariant: no more state than the families have.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_PROTOCOLS_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_PROTOCOLS_H_

#include <optional>

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/class_statements.h"
#include "symbolic/calls/frame_entry.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/journals.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/protocols/attribute_writes.h"
#include "symbolic/protocols/building.h"
#include "symbolic/protocols/items.h"
#include "symbolic/protocols/iteration.h"
#include "symbolic/protocols/missing_attributes.h"
#include "symbolic/protocols/name_access.h"
#include "symbolic/protocols/operators.h"
#include "symbolic/protocols/raising.h"
#include "symbolic/protocols/special_methods.h"
#include "symbolic/protocols/statements.h"
#include "symbolic/protocols/tensor_attributes.h"
#include "symbolic/protocols/text_conversion.h"
#include "symbolic/protocols/truths.h"

namespace framefuse {

class CaptureProtocols final : public Protocols {
 public:
  CaptureProtocols(PyThreadState* thread, frame_ops::Frame* real_frame, const CaptureOptions& options);

  Journals& journals() { return journals_; }
  FrameHandler& frame_handler() { return entry_; }
  AutogradCalls& autograd() { return calls_.autograd(); }
  void ClearReads() { names_.ClearReads(); }

  StopAction OnStop(Activation& act) override;
  bool BeforeDrop(Activation& act, ValueView old) override;
  void SeeWhetherBound(Activation& act, int slot) override;
  Value AdoptSlot(Activation& act, int slot) override;
  Value LoadGlobal(Activation& act, BorrowedRef name) override;
  bool StoreGlobal(Activation& act, BorrowedRef name, ValueView value) override;
  bool DeleteGlobal(Activation& act, BorrowedRef name) override;
  Value LoadName(Activation& act, BorrowedRef name) override;
  bool StoreName(Activation& act, BorrowedRef name, ValueView value) override;
  bool DeleteName(Activation& act, BorrowedRef name) override;
  Value MakeCell(Activation& act, int slot, ValueView initial) override;
  Value LoadDeref(Activation& act, int slot) override;
  bool StoreDeref(Activation& act, int slot, ValueView value) override;
  bool DeleteDeref(Activation& act, int slot) override;
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
  std::optional<bool> TruthOfAttr(Activation& act, ValueView owner, BorrowedRef name) override;
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
  bool BeforeHandling(Activation& act) override;
  bool AfterHandling(Activation& act, ValueView previous) override;
  void Raise(Activation& act, ValueView exception_or_null, ValueView cause_or_null) override;
  Value ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) override;
  Value ImportFrom(Activation& act, ValueView module, BorrowedRef name) override;
  bool ImportStar(Activation& act, ValueView module) override;
  Value Intrinsic1(Activation& act, int which, ValueView v) override;
  Value Intrinsic2(Activation& act, int which, ValueView a, ValueView b) override;
  bool Unsupported(Activation& act, const char* opcode_name) override;

 private:
  Journals journals_;
  NativeProtocols native_;
  FrameEntry entry_;
  ClassStatements class_statements_{journals_, *this, entry_};
  NameAccess names_{journals_, native_, class_statements_};
  SpecialMethods special_{journals_, attributes_, calls_};
  AttributeReads attributes_{journals_, special_, missing_, tensor_attributes_, calls_};
  MissingAttributes missing_{journals_, special_};
  TensorAttributes tensor_attributes_{journals_, attributes_};
  AttributeWrites attribute_writes_{journals_, class_statements_, special_, attributes_, tensor_attributes_, calls_};
  Operators operators_{journals_, native_, *this};
  Truths truths_{journals_, native_};
  Items items_{journals_, native_, *this, calls_};
  Iteration iteration_{journals_, native_, calls_};
  Building building_{journals_, native_, class_statements_, iteration_};
  TextConversion text_{journals_, native_, calls_};
  Statements statements_{journals_, native_, *this, attributes_, calls_};
  Raising raising_{journals_, native_, calls_};
  CallEvaluator calls_{journals_,          class_statements_, entry_,     *this, attributes_, native_,
                       tensor_attributes_, attribute_writes_, iteration_, text_};
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_CAPTURE_PROTOCOLS_H_
