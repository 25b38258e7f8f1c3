// Functions of Python's that hear of each compilation (torch._dynamo.callback's, as the package gives them).
// Invariant: they run outside of any capture, and what they raise is the caller's exception.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_COMPILE_CALLBACKS_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_COMPILE_CALLBACKS_H_

#include "frame_eval/ref.h"

namespace framefuse {

// Called with the id of the compilation ("2/1"), once before and once after it.
void SetCompileCallbacks(Ref before, Ref after);

// False: one raised, and its error is set.
[[nodiscard]] bool TellCompileBegins();
[[nodiscard]] bool TellCompileEnds();

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_COMPILE_CALLBACKS_H_
