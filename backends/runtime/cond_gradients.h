// Which gradients a conditional's backward has to give. Where no path leads from a result that has a gradient to an
// operand, in either branch, there is none; zeros would be another answer (`.grad` is None).
// Invariant: an operand that only the other branch reads has a gradient of zeros, as with torch.cond.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_COND_GRADIENTS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_COND_GRADIENTS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

// By output of the branch: whether it depends on one of the inputs that are `given`, by input.
std::vector<bool> ReachedOutputs(const ir::Graph& branch, const std::vector<bool>& given);

// Zeros for an input of the branch.
at::Tensor ZerosForInput(const ir::Graph& branch, std::size_t input);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_COND_GRADIENTS_H_
