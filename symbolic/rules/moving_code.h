// Moving code: what of C code hands on the results of the Python frames that it calls, and looks at none of them.
// Anything else that calls frames may read what they return or yield, as it may read its arguments.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_MOVING_CODE_H_
#define FRAMEFUSE_SYMBOLIC_RULES_MOVING_CODE_H_

#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

// A function that is called, or an iterator that is stepped. Invariant: false where it is not known.
bool OnlyMoves(BorrowedRef receiver);

// An iterator of C code that hands on what the containers hold which it walks, and looks at none of it. One that looks
// does so when it is stepped: the containers may have got other items since it was made.
bool MovesItems(BorrowedRef iterator);

// The iterator whose items a call of C code keeps as they are; null: none, or it may look at them.
BorrowedRef KeptItems(BorrowedRef callable, absl::Span<const ValueView> args);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_MOVING_CODE_H_
