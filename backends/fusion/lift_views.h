// LiftViews: a widening cast that is read through views only is done behind the view, so that it joins the kernel that
// reads it there: logits that become f32 and then rows, for a loss.
#ifndef FRAMEFUSE_BACKENDS_FUSION_LIFT_VIEWS_H_
#define FRAMEFUSE_BACKENDS_FUSION_LIFT_VIEWS_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

// A pass (backends/passes/pass.h): whether it changed something. Functional graphs of constant sizes only.
absl::StatusOr<bool> LiftViews(ir::Graph& graph);
// A pass: what comes back to the sizes of its base, through views, is the base. It is read by kernels then.
absl::StatusOr<bool> DropViews(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_LIFT_VIEWS_H_
