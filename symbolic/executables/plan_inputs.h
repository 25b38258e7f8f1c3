// plan_inputs: where the tensors stand that an entry's plan takes, and the guards that their use in the graph needs.
// Invariant: the entry's inputs are in the order of the plan's.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_PLAN_INPUTS_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_PLAN_INPUTS_H_

#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {

void AddInputs(Capture& capture, Closed& closed);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_PLAN_INPUTS_H_
