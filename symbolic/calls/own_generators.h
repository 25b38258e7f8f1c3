// OwnGenerators: torch's generators of random numbers that the frame makes. Their seeds are known, so what they draw is
// the same in each call: the capture draws it, and the graph has it as a constant.
// Invariant: no graph draws from a generator of the frame's own; where one is still there at the end, the entry makes a
// new one in its state (MakerOfCopies).
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_OWN_GENERATORS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_OWN_GENERATORS_H_

#include <optional>

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

class BreakController;
class FxJournal;
class Journals;
class NativeArguments;
class NativeCalls;
class ObjectTable;

class OwnGenerators {
 public:
  OwnGenerators(Journals& journals, NativeCalls& natives);

  // torch.Generator(…), and a method that says or asks where one begins.
  Value Call(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  // A call of torch's that is given such a generator. Nothing: it is not.
  std::optional<Value> Draw(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);

 private:
  Value Fill(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames);
  BorrowedRef GivenTo(absl::Span<const ValueView> args, BorrowedRef kwnames) const;

  BreakController& breaks_;
  ObjectTable& objects_;
  NativeArguments& arguments_;
  FxJournal& fx_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_OWN_GENERATORS_H_
