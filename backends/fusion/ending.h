// The ending of a run: its last steps, where they only make large results. A recording leaves them out and runs them
// behind each replay, in fresh memory: what a replay writes has to be copied before it leaves, and that takes as long.
// Invariant: an ending writes no input, and what it makes nothing else of the run reads.
#ifndef FRAMEFUSE_BACKENDS_FUSION_ENDING_H_
#define FRAMEFUSE_BACKENDS_FUSION_ENDING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/fusion/step.h"

namespace framefuse::fusion {

struct EndingPlan {
  std::size_t first = 0;             // step; the number of steps: there is no ending
  std::vector<std::size_t> outputs;  // of the graph, that it makes
  std::vector<ir::ValueId> held;     // what steps before it made, but for inputs and constants, and it reads
};

// `apart`: outputs that may be in fresh memory. `exprs`: the values of the graph's size expressions.
EndingPlan PlanEnding(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps,
                      const std::vector<bool>& apart, const std::vector<std::int64_t>& exprs);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_ENDING_H_
