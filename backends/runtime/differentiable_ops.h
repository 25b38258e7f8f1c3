// differentiable_ops: a joint graph whose gradients have derivatives in turn (create_graph). While histories are kept
// torch computes some derivatives by other formulas than those that were recorded: silu's backward by operators with
// derivatives, that of solve() without the factors that it has none for. Nodes that must not be differentiated as they
// stand get operators of framefuse's own instead, made of ones with derivatives, or are written without what gradients
// do not depend on. Invariant: values are what they were.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_DIFFERENTIABLE_OPS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_DIFFERENTIABLE_OPS_H_

#include "backends/graph/graph.h"

namespace framefuse {

void MakeDifferentiable(ir::Graph& joint);

// (value, of): the elements of the first with the history of the second, which has its sizes.
ir::OpId KeepsHistory();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_DIFFERENTIABLE_OPS_H_
