// JoinSlices: the gradient of a tensor that is read by slices, x[:h] and x[h:], is a sum of tensors that are zero but
// for one part. Where the parts cover it and none meets another, it is their concatenation: no zeros are made, and each
// element is written once. The values are the sum's to the bit: a part has 0 added, which makes of -0 the sum's +0.
#ifndef FRAMEFUSE_BACKENDS_FUSION_JOIN_SLICES_H_
#define FRAMEFUSE_BACKENDS_FUSION_JOIN_SLICES_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass (backends/passes/pass.h): whether it changed something. Functional graphs only.
absl::StatusOr<bool> JoinSlices(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_JOIN_SLICES_H_
