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

namespace framefuse {

// `node` runs now. turns[i]: of its edge i, smaller is earlier, negative: no gradient goes there.
void OrderLeaves(torch::autograd::Node& node, const std::vector<std::int32_t>& turns);
// gradients[i] goes to the leaf behind edge i now, with its hooks: `node` is about to fail, and in eager the leaf came
// before the node that fails. What other nodes have brought it goes with it. turns: as OrderLeaves takes them.
// Returns the gradients of what is no leaf, or a leaf that nodes still to come lead to.
torch::autograd::variable_list AccumulateNow(torch::autograd::Node& node, torch::autograd::variable_list gradients,
                                             const std::vector<std::int32_t>& turns);
// The gradient of edge i alone, while `node` still computes others; false: it is left to the engine, as it is.
bool AccumulateEarly(torch::autograd::Node& node, std::size_t edge, torch::autograd::Variable* gradient);
// What has come to the leaf in this pass goes there now, while `node` runs.
void AccumulatePending(torch::autograd::Node& node, torch::autograd::Node& leaf);
// With a list of inputs (torch.autograd.grad) a pass may end before the leaf's node.
bool RunsInPass(const torch::autograd::Node& leaf);
// Whether a hook sees when a gradient comes to one of the leaves behind these edges.
bool AnyLeafHasHooks(const torch::autograd::Node& node);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_
