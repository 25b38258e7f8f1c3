// The name of a recorded tensor's grad_fn in eager, which the text of a tensor shows (ir::Output::grad_fn).
// One node of ours may stand for several of eager's: who makes such nodes says the names, and in which order a pass
// through them comes to what is behind.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_GRAD_FN_NAME_H_
#define FRAMEFUSE_BACKENDS_GRAPH_GRAD_FN_NAME_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace framefuse::ir {

// Empty: it has none, or eager's is not known.
std::string GradFnNameOf(const at::Tensor& t);

// Returns the name of a node's result; empty: of another kind, or not known. Set once a process, before any is asked.
using GradFnNames = std::string (*)(const torch::autograd::Node& node, std::uint32_t result);
void NameGradFnsBy(GradFnNames names);

// A number for each edge of the node, smaller is earlier. Empty: of another kind, or not known. Set as the names are.
std::vector<std::int64_t> OrderOfEdges(const torch::autograd::Node& node);
using EdgeOrders = std::vector<std::int64_t> (*)(const torch::autograd::Node& node);
void OrderEdgesBy(EdgeOrders orders);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_GRAD_FN_NAME_H_
