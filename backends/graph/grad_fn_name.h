// The name of a recorded tensor's grad_fn in eager, which the text of a tensor shows (ir::Output::grad_fn).
// One node of ours may stand for several of eager's: who makes such nodes says the names.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_GRAD_FN_NAME_H_
#define FRAMEFUSE_BACKENDS_GRAPH_GRAD_FN_NAME_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace framefuse::ir {

// Empty: it has none, or eager's is not known.
std::string GradFnNameOf(const at::Tensor& t);

// Returns the name of a node's result; empty: of another kind, or not known. Set once a process, before any is asked.
using GradFnNames = std::string (*)(const torch::autograd::Node& node, std::uint32_t result);
void NameGradFnsBy(GradFnNames names);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_GRAD_FN_NAME_H_
