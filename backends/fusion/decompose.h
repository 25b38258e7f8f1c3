// Decompose: operators that fusion gains from, as pointwise operators and reductions of ATen. Norms, softmax and their
// backwards, mean, var, and the _foreach operators element by element. Half precision is widened to f32 inside, so
// results are at least as exact as eager's. Functional graphs only.
#ifndef FRAMEFUSE_BACKENDS_FUSION_DECOMPOSE_H_
#define FRAMEFUSE_BACKENDS_FUSION_DECOMPOSE_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass (backends/passes/pass.h): whether it changed something.
absl::StatusOr<bool> Decompose(ir::Graph& graph);
// A pass over a joint graph: a log_softmax that the backward reads, and the gradients of it and of nll_loss, so that
// the partition sees what they are made of: it saves the logits and two numbers a row, not a second matrix of f32.
absl::StatusOr<bool> OpenLogSoftmax(ir::Graph& graph);
// A pass over a joint graph: gradients of cuDNN's batch norm read what its forward reserved, which a forward in kernels
// has not. The native operator needs the moments only, whether kernels compute it or ATen.
absl::StatusOr<bool> UseNativeBatchNormGradients(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_DECOMPOSE_H_
