// SinkViews: what acts on the view of a kernel's result, one element at a time, acts on the result itself, and the view
// comes after it; so it joins that kernel (group norm and the activation after it).
#ifndef FRAMEFUSE_BACKENDS_FUSION_SINK_VIEWS_H_
#define FRAMEFUSE_BACKENDS_FUSION_SINK_VIEWS_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass (backends/passes/pass.h): whether it changed something. Functional graphs only.
absl::StatusOr<bool> SinkViews(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_SINK_VIEWS_H_
