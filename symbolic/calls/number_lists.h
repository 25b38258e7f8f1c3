// NumberLists: torch.tensor() of a list of numbers from outside that changed from call to call, as requests of a server
// do. The tensor is an input of the graph, which the entry makes of the list that is there: of any numbers, and of as
// many as its sizes allow. Invariant: the list, and lists in it, are as they were when the call began.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_NUMBER_LISTS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_NUMBER_LISTS_H_

#include <optional>

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

class Journals;
class NativeCalls;
class ObjectTable;
class ReadJournal;
class Symbols;
struct Activation;

class NumberLists {
 public:
  NumberLists(Journals& journals, NativeCalls& natives);

  // Of torch.tensor and torch.as_tensor. Nothing: of something else, or of a list that did not change.
  std::optional<Value> TensorOf(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args,
                                BorrowedRef kwnames);

 private:
  bool IsUntouched(BorrowedRef list) const;
  Value InputFor(BorrowedRef tensor, SourceId source);

  ReadJournal& reads_;
  ObjectTable& objects_;
  Symbols& symbols_;
  NativeCalls& natives_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_NUMBER_LISTS_H_
