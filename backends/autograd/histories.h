// Histories: which values of a joint graph eager's autograd has a history of. A second derivative runs the joint graph
// through torch's engine: what was detached, or computed or written without gradients, is cut off first.
// Invariant: values are what they were.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_HISTORIES_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_HISTORIES_H_

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

// By value: whether it changes with no differentiable input.
std::vector<bool> ConstantValues(const ir::Graph& joint);

// Detaches what eager's histories do not go through: torch's engine will not, either. What was written without a
// history keeps the one that it had.
void CutHistories(ir::Graph& joint, const std::vector<bool>& constant);

// What a differentiable run of the joint graph reads and executes, with saved constants taken as they are.
struct Closure {
  std::vector<bool> nodes;
  std::vector<bool> used;  // by value
};
Closure CloseOver(const ir::Graph& joint, const std::vector<ir::ValueId>& roots, const std::vector<bool>& taken);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_HISTORIES_H_
