// Lists, tuples and dicts that hold themselves, directly or through others. A walk through them has no end.
// Invariant: runs no Python; takes time by the number of containers and items.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_SELF_HOLDING_H_
#define FRAMEFUSE_SYMBOLIC_RULES_SELF_HOLDING_H_

#include "frame_eval/ref.h"

namespace framefuse {

bool HoldsItself(BorrowedRef container);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_SELF_HOLDING_H_
