#include "backends/autograd/own_memory.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <cstddef>

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

bool SharesStorage(const at::Tensor& t) { return t.defined() && t.has_storage() && t.storage().use_count() > 1; }

bool IsLeafWithoutGradient(const autograd::Edge& edge) {
  const auto* leaf = edge.is_valid() ? dynamic_cast<const autograd::AccumulateGrad*>(edge.function.get()) : nullptr;
  return leaf != nullptr && leaf->variable.defined() && !leaf->variable.grad().defined();
}

}  // namespace

void OwnMemory(autograd::variable_list& gradients) {
  for (at::Tensor& t : gradients) {
    if (t.defined() && (t.use_count() > 1 || SharesStorage(t))) t = t.clone();
  }
}

void OwnMemoryOfLeaf(const autograd::Edge& edge, at::Tensor& gradient) {
  // One tensor at two edges is seen by the leaf itself.
  if (!SharesStorage(gradient) || gradient.use_count() > 1) return;
  if (IsLeafWithoutGradient(edge)) gradient = gradient.clone();
}

void OwnMemoryOfLeaves(absl::Span<const autograd::Edge> edges, autograd::variable_list& gradients) {
  for (std::size_t g = 0; g < gradients.size(); ++g) OwnMemoryOfLeaf(edges[g], gradients[g]);
}

}  // namespace framefuse
