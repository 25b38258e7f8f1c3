// Ways through a code object that do nothing but end in a raise.
#ifndef FRAMEFUSE_FRAME_EVAL_BYTECODE_RAISING_H_
#define FRAMEFUSE_FRAME_EVAL_BYTECODE_RAISING_H_

#include <optional>

#include "frame_eval/bytecode/decode.h"

namespace framefuse {

// Whether each way from the instruction at `position` on ends in a raise, without a loop. Handlers are not looked at.
bool OnlyRaises(const Bytecode& code, int position);

// The truth of the value that the branch at code unit `index` tests with which it does not raise, where the other way
// only raises: `if bad: raise`, `assert good`. Nothing: it is no such branch.
std::optional<bool> TruthThatGoesOn(const Bytecode& code, int index);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_BYTECODE_RAISING_H_
