// SinkCats: a concatenation that only a pointwise operator reads becomes that operator on the pieces, and then the
// concatenation; so on down. A rotation of halves, cat(-b, a) * sin + x * cos, is one kernel then that reads and writes
// each element once.
#ifndef FRAMEFUSE_BACKENDS_FUSION_SINK_CATS_H_
#define FRAMEFUSE_BACKENDS_FUSION_SINK_CATS_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass (backends/passes/pass.h): whether it changed something.
absl::StatusOr<bool> SinkCats(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_SINK_CATS_H_
