// Torch's generators of random numbers. One that the frame makes draws what the frame's own seed decides: constants
// (symbolic/calls/own_generators.h). One from outside is guarded by identity, and the graph draws from it.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_TORCH_GENERATORS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_TORCH_GENERATORS_H_

#include "frame_eval/ref.h"

namespace framefuse {

bool IsTorchGenerator(BorrowedRef object);
// The class of generators, or a method of theirs.
bool IsOfGenerators(BorrowedRef callable);
// What makes a new generator, in the state that this one is in now, each time it is called. Null: an error is set.
Ref MakerOfCopies(BorrowedRef generator);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_TORCH_GENERATORS_H_
