// Protocols: what an instruction means, apart from moving values. The evaluator (evaluator.h) decodes
// instructions, moves values between slots, unwinds exceptions and handles generators; everything that reads
// or writes an object goes through here, one method for each Python protocol. NativeProtocols does what
// CPython does and nothing else; CaptureProtocols (symbolic/capture) keeps the journals.
// Invariant: arguments are lent; results are owned. A failed method returns a null Value / false / kError with the
// Python error set. Only the evaluator asks whether that error is the program's, or the run is unwinding.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_PROTOCOLS_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_PROTOCOLS_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

enum class UnaryOp : std::uint8_t { kPositive, kNegative, kNot, kInvert };
// BinaryOp values are CPython's NB_* oparg numbers (in-place from 13 on), the same from 3.11 to 3.14.
enum class [[nodiscard]] Truth : std::int8_t{kError = -1, kFalse = 0, kTrue = 1};
enum class [[nodiscard]] ForIterOutcome : std::uint8_t{kItem, kExhausted, kError};
inline constexpr int kIntrinsicPrint = 1;
inline constexpr int kIntrinsicImportStar = 2;
inline constexpr int kIntrinsicStopIterationError = 3;
inline constexpr int kIntrinsicAsyncGenWrap = 4;
inline constexpr int kIntrinsicUnaryPositive = 5;
inline constexpr int kIntrinsicListToTuple = 6;
inline constexpr int kIntrinsicPrepReraiseStar = 1;  // of the two-argument ones
enum class [[nodiscard]] SendOutcome : std::uint8_t{kYielded, kReturned, kError};

class Protocols {
 public:
  virtual ~Protocols() = default;

  // ---- run control
  // Called before the instruction at act.instruction when Control::stop_at is reached.
  virtual StopAction OnStop(Activation& act) = 0;
  // First load of a slot whose source is kUnadopted; stores the representative in the slot and returns it.
  // The evaluator handles unbound slots itself.
  virtual Value AdoptSlot(Activation& act, int slot) = 0;
  // The run goes on as it does because the slot is unbound, or is not.
  virtual void SeeWhetherBound(Activation&, int /*slot*/) {}
  // A local gives up `old`, whose end something may see (MayBeSeenToEnd). False: broke.
  [[nodiscard]] virtual bool BeforeDrop(Activation&, ValueView) { return true; }

  // ---- names
  virtual Value LoadGlobal(Activation& act, BorrowedRef name) = 0;  // NameError text as CPython's
  [[nodiscard]] virtual bool StoreGlobal(Activation& act, BorrowedRef name, ValueView value) = 0;
  [[nodiscard]] virtual bool DeleteGlobal(Activation& act, BorrowedRef name) = 0;
  virtual Value LoadName(Activation& act, BorrowedRef name) = 0;
  [[nodiscard]] virtual bool StoreName(Activation& act, BorrowedRef name, ValueView value) = 0;
  [[nodiscard]] virtual bool DeleteName(Activation& act, BorrowedRef name) = 0;
  virtual Value LoadDeref(Activation& act, int slot) = 0;  // unbound: NameError/UnboundLocalError
  [[nodiscard]] virtual bool StoreDeref(Activation& act, int slot, ValueView value) = 0;
  [[nodiscard]] virtual bool DeleteDeref(Activation& act, int slot) = 0;
  // The cell for a local that a closure captures; `initial` is the argument that was in the slot, or null.
  virtual Value MakeCell(Activation& act, int slot, ValueView initial) = 0;
  virtual Value LoadClassDeref(Activation& act, int slot) = 0;  // 3.12: LOAD_FROM_DICT_OR_DEREF passes its mapping
  virtual Value LoadFromDictOrDeref(Activation& act, ValueView mapping, int slot) = 0;
  virtual Value LoadFromDictOrGlobals(Activation& act, ValueView mapping, BorrowedRef name) = 0;
  virtual Value LoadBuildClass(Activation& act) = 0;
  virtual Value LoadLocals(Activation& act) = 0;
  [[nodiscard]] virtual bool SetupAnnotations(Activation& act) = 0;

  // ---- attributes
  virtual Value LoadAttr(Activation& act, ValueView owner, BorrowedRef name) = 0;
  // Like LoadAttr, but may leave a method unbound: then *self is the owner, else *self stays null.
  virtual Value LoadMethod(Activation& act, ValueView owner, BorrowedRef name, Value* self) = 0;
  virtual Value LoadSuperAttr(Activation& act, ValueView global_super, ValueView cls, ValueView self, BorrowedRef name,
                              bool two_argument, bool is_method, Value* method_self) = 0;
  [[nodiscard]] virtual bool StoreAttr(Activation& act, ValueView owner, BorrowedRef name, ValueView value) = 0;
  [[nodiscard]] virtual bool DeleteAttr(Activation& act, ValueView owner, BorrowedRef name) = 0;

  // ---- operators
  virtual Value Unary(Activation& act, UnaryOp op, ValueView v) = 0;
  virtual Value Binary(Activation& act, int nb_op, ValueView left, ValueView right) = 0;
  virtual Value Compare(Activation& act, int py_op, ValueView left, ValueView right) = 0;  // Py_LT …
  virtual Truth Is(Activation& act, ValueView left, ValueView right) = 0;
  virtual Truth Contains(Activation& act, ValueView item, ValueView container) = 0;
  virtual Truth IsTrue(Activation& act, ValueView v) = 0;
  // Of an attribute that only a jump looks at, if it is known without a look-up that can fail or run code.
  virtual std::optional<bool> TruthOfAttr(Activation& act, ValueView owner, BorrowedRef name) = 0;
  // Whether v is None, without consuming more than that fact (POP_JUMP_IF_NONE).
  virtual Truth IsNone(Activation& act, ValueView v) = 0;
  virtual Value GetItem(Activation& act, ValueView container, ValueView key) = 0;
  [[nodiscard]] virtual bool SetItem(Activation& act, ValueView container, ValueView key, ValueView value) = 0;
  [[nodiscard]] virtual bool DeleteItem(Activation& act, ValueView container, ValueView key) = 0;

  // ---- calls. `args` holds positional then keyword values; `kwnames` is a tuple or null.
  virtual Value Call(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) = 0;
  virtual Value CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs_or_null) = 0;

  // ---- iteration and unpacking
  virtual Value GetIter(Activation& act, ValueView v) = 0;
  virtual Value GetYieldFromIter(Activation& act, ValueView v) = 0;
  virtual ForIterOutcome ForIter(Activation& act, ValueView iterator, Value* item) = 0;
  virtual SendOutcome Send(Activation& act, ValueView receiver, ValueView sent, Value* result) = 0;
  // Fills out[0..n): element i in out[i]. ValueError/TypeError texts as CPython's.
  [[nodiscard]] virtual bool UnpackSequence(Activation& act, ValueView v, absl::Span<Value> out) = 0;
  [[nodiscard]] virtual bool UnpackEx(Activation& act, ValueView v, int before, int after, absl::Span<Value> out) = 0;

  // ---- building
  virtual Value BuildTuple(Activation& act, absl::Span<const ValueView> items) = 0;
  virtual Value BuildList(Activation& act, absl::Span<const ValueView> items) = 0;
  virtual Value BuildSet(Activation& act, absl::Span<const ValueView> items) = 0;
  virtual Value BuildMap(Activation& act, absl::Span<const ValueView> keys_and_values) = 0;
  virtual Value BuildString(Activation& act, absl::Span<const ValueView> parts) = 0;
  virtual Value BuildSlice(Activation& act, ValueView start, ValueView stop, ValueView step_or_null) = 0;
  // A template string's: `conversion` is FVC_STR or its like.
  virtual Value BuildInterpolation(Activation& act, ValueView v, BorrowedRef text, int conversion,
                                   ValueView format_or_null) = 0;
  virtual Value BuildTemplate(Activation& act, BorrowedRef strings, BorrowedRef interpolations) = 0;
  [[nodiscard]] virtual bool ListAppend(Activation& act, BorrowedRef list, ValueView item) = 0;
  [[nodiscard]] virtual bool SetAdd(Activation& act, BorrowedRef set, ValueView item) = 0;
  [[nodiscard]] virtual bool MapAdd(Activation& act, BorrowedRef map, ValueView key, ValueView value) = 0;
  [[nodiscard]] virtual bool ListExtend(Activation& act, BorrowedRef list, ValueView iterable) = 0;
  [[nodiscard]] virtual bool SetUpdate(Activation& act, BorrowedRef set, ValueView iterable) = 0;
  // With a callable, which messages name: of its keyword arguments, where no name may be there twice.
  [[nodiscard]] virtual bool DictUpdate(Activation& act, BorrowedRef dict, ValueView mapping,
                                        BorrowedRef callable_or_null) = 0;
  virtual Value ListToTuple(Activation& act, ValueView list) = 0;
  // str(), repr() or ascii() of it: FVC_STR and its like.
  virtual Value ConvertValue(Activation& act, ValueView v, int conversion) = 0;
  virtual Value FormatValue(Activation& act, ValueView v, int conversion, ValueView spec_or_null) = 0;
  // `flags` as MAKE_FUNCTION's oparg; parts not present are null.
  virtual Value MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults,
                             ValueView annotations, ValueView closure) = 0;
  // Gives a function that MakeFunction made the part that `flag` names.
  [[nodiscard]] virtual bool SetFunctionAttribute(Activation& act, BorrowedRef function, int flag, ValueView part) = 0;

  // ---- with, match, exceptions, imports
  [[nodiscard]] virtual bool BeforeWith(Activation& act, ValueView manager, Value* exit, Value* entered) = 0;
  // Bound. The TypeError of a `with` statement where there is none.
  virtual Value LoadSpecial(Activation& act, ValueView owner, frame_ops::SpecialMethod which) = 0;
  // `self`: a first argument of its own, or null.
  virtual Value CallExit(Activation& act, ValueView exit, ValueView self, BorrowedRef type, BorrowedRef exception,
                         BorrowedRef traceback) = 0;
  virtual Value GetLength(Activation& act, ValueView v) = 0;
  virtual Truth MatchMapping(Activation& act, ValueView v) = 0;
  virtual Truth MatchSequence(Activation& act, ValueView v) = 0;
  virtual Value MatchKeys(Activation& act, ValueView subject, ValueView keys) = 0;  // tuple or None
  virtual Value MatchClass(Activation& act, ValueView subject, ValueView cls, int positional, ValueView names) = 0;
  virtual Truth ExceptionMatches(Activation& act, ValueView exception, ValueView type) = 0;
  [[nodiscard]] virtual bool ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match,
                                                 Value* rest) = 0;
  virtual Value PrepareReraiseStar(Activation& act, ValueView original, ValueView results) = 0;
  // PUSH_EXC_INFO is about to make a caught exception the handled one; POP_EXCEPT to make `previous` it. False: broke.
  [[nodiscard]] virtual bool BeforeHandling(Activation&) { return true; }
  [[nodiscard]] virtual bool AfterHandling(Activation&, ValueView previous) {
    return static_cast<void>(previous), true;
  }
  // Sets the Python error for `raise`, `raise e`, `raise e from c` (nulls as absent). Always ends in an error.
  virtual void Raise(Activation& act, ValueView exception_or_null, ValueView cause_or_null) = 0;
  virtual Value ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) = 0;
  virtual Value ImportFrom(Activation& act, ValueView module, BorrowedRef name) = 0;
  [[nodiscard]] virtual bool ImportStar(Activation& act, ValueView module) = 0;
  // CALL_INTRINSIC_1/2 kinds that are none of the above, by 3.12's numbers (3.11's PRINT_EXPR is kIntrinsicPrint).
  virtual Value Intrinsic1(Activation& act, int which, ValueView v) = 0;
  virtual Value Intrinsic2(Activation& act, int which, ValueView a, ValueView b) = 0;
  // Before an opcode whose meaning has no protocol (async …): true lets the evaluator execute it as CPython does;
  // false: an error is set.
  [[nodiscard]] virtual bool Unsupported(Activation& act, const char* opcode_name) = 0;

  Control control;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_PROTOCOLS_H_
