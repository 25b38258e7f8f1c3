// Leaf turns: several leaves behind one node of torch's engine, which eager has several nodes for (a checkpoint's). The
// engine takes leaves that become ready together from a heap. With a node of its own before each, made latest turn
// first, it comes to them in eager's order.
// Invariant: what comes to a leaf is what the one node gave it.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_LEAF_TURNS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_LEAF_TURNS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace framefuse {

// The tensors, leaves that require grad behind nodes of their own. `turns`: of each; negative: it has none.
std::vector<at::Tensor> BehindNodesOfTheirOwn(at::TensorList tensors, absl::Span<const std::int64_t> turns);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_LEAF_TURNS_H_
