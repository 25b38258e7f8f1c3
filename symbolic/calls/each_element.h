// each_element: a foreach function of torch's that is given numbers which the graph computes, as calls of the plain
// function for each element: torch would look at the numbers. On a CPU it is computed so anyway.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_EACH_ELEMENT_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_EACH_ELEMENT_H_

#include <optional>
#include <vector>

#include "symbolic/rules/call_arguments.h"
#include "symbolic/tracing/numbers.h"

namespace framefuse {

struct EachElement {
  Ref method;  // of tensors
  std::vector<ValueVector> calls;
  Ref kwnames;
  bool in_place = false;  // the result is the first argument
};

// Nothing: it is called as it is.
std::optional<EachElement> SplitForeach(const tracing::Numbers& numbers, BorrowedRef callable,
                                        absl::Span<const ValueView> args, BorrowedRef kwnames);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_EACH_ELEMENT_H_
