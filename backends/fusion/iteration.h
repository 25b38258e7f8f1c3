// Iteration: how a group's values lie over its iteration space, with dimensions ordered and collapsed.
// Strides are in elements and symbolic; sizes stay arguments of the kernel.
#ifndef FRAMEFUSE_BACKENDS_FUSION_ITERATION_H_
#define FRAMEFUSE_BACKENDS_FUSION_ITERATION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "backends/fusion/group.h"

namespace framefuse::fusion {

// Where a group's value is in memory.
struct Operand {
  ir::ValueId value = ir::kNoValue;
  bool written = false;
  std::vector<ir::Dim> strides;  // one for each dimension of the space
};

// A group of neighbouring dimensions with one meaning.
struct Axis {
  ir::Dim extent;
  std::vector<ir::Dim> strides;  // one for each operand
};

struct Iteration {
  std::vector<Operand> operands;
  // Outermost first. Row: kept axes, then reduced ones. Column: kept (batch), reduced, inner kept.
  std::vector<Axis> outer, reduced, inner;
};

// Inputs first, then outputs. `graph` gets new size expressions.
Iteration MakeIteration(ir::Graph& graph, const Group& group, const std::vector<ir::ValueId>& inputs,
                        const std::vector<ir::ValueId>& outputs);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_ITERATION_H_
