// leaf_order: a graph's gradients are there all at once, and the engine would come to their leaves in the order in
// which a heap holds equal ones. Where hooks can tell, the leaves get numbers for this pass by which they come in
// eager's. A leaf that waits for graphs which bring it nothing in this pass is not kept waiting.
// Invariant: a leaf that another node of the pass still leads to is left alone, and all are as before after the pass.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_

#include <torch/csrc/autograd/function.h>

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
// `node` runs now and brings the leaves behind these edges nothing: what other nodes have brought them in this pass
// goes there first, as in eager, where they do not wait for `node`.
void AccumulatePending(torch::autograd::Node& node, const std::vector<std::size_t>& edges);
// Whether a leaf to which `node` brings one of these gradients waits for nodes that bring it nothing in this pass: the
// engine would come to it after them, or, where one before them fails, never.
bool AnyWaitsInVain(torch::autograd::Node& node, const torch::autograd::variable_list& gradients);
// Whether a hook sees when a gradient comes to one of the leaves behind these edges.
bool AnyLeafHasHooks(const torch::autograd::Node& node);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_LEAF_ORDER_H_
