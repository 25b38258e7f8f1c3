// GradientTargets: where the gradients go that a graph's node computes in a pass.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_GRADIENT_TARGETS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_GRADIENT_TARGETS_H_

#include <torch/csrc/autograd/function.h>

#include <cstdint>

#include "absl/types/span.h"

namespace framefuse {

struct GradientTargets {
  torch::autograd::Node& node;                    // that runs
  absl::Span<const torch::autograd::Edge> edges;  // by gradient; not valid: nowhere in this pass
  std::uint64_t first_made = 0;                   // the lowest number of the nodes that have these edges
  std::uint64_t first_leaf = UINT64_MAX;          // the number for the leaf that comes first, others count down from it
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_GRADIENT_TARGETS_H_
