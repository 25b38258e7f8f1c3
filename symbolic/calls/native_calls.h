// NativeCalls: calls of C code that a rule allows: torch's operators on fakes, numpy's functions of numbers, and
// others. Invariant: arguments are prepared before; a call with a tensor stands in the FX journal after.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_NATIVE_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_NATIVE_CALLS_H_

#include <optional>

#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/array_functions.h"

namespace framefuse {

class BreakController;
struct EachElement;
class FxJournal;
class Journals;
class NativeArguments;
class NativeBoundary;
class ObjectTable;
class WriteJournal;
namespace tracing {
class Tracer;
}

class NativeCalls {
 public:
  explicit NativeCalls(Journals& journals);

  Value CallNative(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallNumpy(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value CallTorch(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // scaled_dot_product_attention. On a GPU a mask whose rows are not contiguous is made so first: torch would take the
  // composite form for it, which is many times as slow. Layers with one mask share the copy.
  Value CallAttention(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  Value MakeHostTensor(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // torch.tensor and its like, of prepared arguments.
  Value MakeTensor(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // The same of one symbolic number. Nothing: of another one, or the number must be looked at.
  std::optional<Value> TensorOfNumber(Activation& act, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // Of a list that changed. Nothing: of another one.
  std::optional<Value> TensorOfNumbers(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args,
                                       BorrowedRef kwnames);
  bool is_for_fx() const;  // the graph is one of torch's calls, each of them recorded as such

 private:
  Value CallEach(Activation& act, BorrowedRef list, const EachElement& each);
  Ref NumbersIn(BorrowedRef list);

  Journals& journals_;
  tracing::Tracer& tracer_;
  FxJournal& fx_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  ArrayFunctions of_arrays_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_NATIVE_CALLS_H_
