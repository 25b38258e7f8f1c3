// LayOutChannelsLast: on a GPU convolutions work on tensors whose channels lie side by side, and what lies between them
// is laid out like that, too. Values of other operators, and all outputs, have the strides that they were recorded
// with. Invariant: what an operator of ATen makes of operands that were laid out anew has the strides that the graph
// says.
#ifndef FRAMEFUSE_BACKENDS_FUSION_CHANNELS_LAST_H_
#define FRAMEFUSE_BACKENDS_FUSION_CHANNELS_LAST_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// [N, C, H, W] with the strides of channels_last; where a size is 1 its stride may be any.
bool IsChannelsLast(ir::ExprTable& exprs, const ir::Value& v);

// A pass over a functional graph. Nothing where the convolutions are not the faster for it (config.rewrite_for_device).
absl::StatusOr<bool> LayOutChannelsLast(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_CHANNELS_LAST_H_
