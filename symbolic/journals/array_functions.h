// ArrayFunctions: numpy's functions, operators and indices of arrays that hold nothing before the graph has run. Numpy
// itself is asked on zeros what comes out; the entry makes the call (made_array.h).
// Invariant: only calls whose result's type, sizes and errors follow from those of the operands, and that write
// nothing.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_FUNCTIONS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_FUNCTIONS_H_

#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"
#include "symbolic/journals/array_inputs.h"
#include "symbolic/journals/made_array.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class FrameStack;
class Journals;
class NativeArguments;
class NativeBoundary;
class ObjectTable;
class RaisingBranches;
namespace tracing {
class Tracer;
}

class ArrayFunctions {
 public:
  explicit ArrayFunctions(Journals& journals);

  // Nothing: no such array is among the operands, or the call is none of these.
  std::optional<Value> Call(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // `function`: of the module operator.
  std::optional<Value> Operator(BorrowedRef function, absl::Span<const ValueView> operands);
  std::optional<Value> Binary(int nb_op, ValueView left, ValueView right);  // one in place breaks
  std::optional<Value> Item(ValueView array, ValueView key);
  bool HasKnownSizes(BorrowedRef array);  // and no more is known of it, or it is from outside, and guarded
  std::optional<Value> Attribute(ValueView array, BorrowedRef name);

 private:
  void TakeAmong(absl::Span<const ValueView> values);
  bool MayRelyOnNumbers(absl::Span<const ValueView> values) const;
  bool IsAmong(absl::Span<const ValueView> values) const;
  // Nothing: a number, and the capture may rely on what the arrays hold.
  std::optional<Value> Make(BorrowedRef function, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // As the entry may have it: null, if it broke.
  Ref Operand(ValueView v);
  Ref ListOfOperands(ValueView v);
  Ref Named(absl::Span<const ValueView> values, BorrowedRef kwnames);
  // `warned`: of zeros, even.
  Value Note(Ref result, MadeArray how, bool warned);
  // False: broke.
  [[nodiscard]] bool NoteWarnings(MadeArray& how, bool warned);
  void NoteReads(BorrowedRef operand, MadeArray& how) const;
  bool IsPartOfEmpty(BorrowedRef array) const;

  FrameStack& frames_;
  BreakController& breaks_;
  BackwardPhase& backward_;
  NativeBoundary& boundary_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  tracing::Tracer& tracer_;
  const RaisingBranches* warning_;
  ArrayInputs inputs_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ARRAY_FUNCTIONS_H_
