// leaf_order: a graph's gradients are there all at once, and the engine would come to their leaves in the order in
// which a heap holds equal ones. Where hooks can tell, the leaves get numbers for this pass by which they come in
// eager's.
// Invariant: a leaf that another node of the pass still leads to is left alone, and all are as before after the pass.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "backends/autograd/gradient_targets.h"

namespace framefuse {

// turns[i]: of edge i, smaller is earlier, negative: no gradient goes there.
void OrderLeaves(const GradientTargets& targets, const std::vector<std::int32_t>& turns);
// gradients[i] goes to the leaf behind edge i now, with its hooks: the node is about to fail, and in eager the leaf
// came before the node that fails, or before an output whose hook sees it. What others have brought it goes with it.
// turns: as OrderLeaves takes them; `coming` is told of each edge before. Left where they are: gradients of what is no
// leaf, or a leaf that nodes still to come lead to, and what hooks make of one that torch.autograd.grad asks for.
void AccumulateNow(const GradientTargets& targets, torch::autograd::variable_list& gradients,
                   const std::vector<std::int32_t>& turns, absl::FunctionRef<void(std::size_t edge)> coming);
// The gradient of edge i alone, while the node still computes others; false: it is left to the engine, as it is.
bool AccumulateEarly(const GradientTargets& targets, std::size_t edge, torch::autograd::Variable* gradient);
// With a list of inputs (torch.autograd.grad) a pass may end before the leaf's node.
bool RunsInPass(const torch::autograd::Node& leaf);
// Whether a hook sees when a gradient comes to one of the leaves behind these edges.
bool AnyLeafHasHooks(const GradientTargets& targets);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_
