// The ending of a run: steps that only make large results, which nothing else of the run reads (the gradients of
// weights, logits). A recording leaves them out and runs them behind each replay, in fresh memory: what a replay writes
// has to be copied before it leaves. What they read stays in the recording's memory until then. Invariant: an ending
// writes no input, and what it makes no recorded step reads; nor do they write over what it reads.
#ifndef FRAMEFUSE_BACKENDS_FUSION_ENDING_H_
#define FRAMEFUSE_BACKENDS_FUSION_ENDING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/fusion/step.h"

namespace framefuse::fusion {

struct EndingPlan {
  std::vector<bool> steps;           // by step: it is of the ending; empty: there is none
  std::vector<std::size_t> outputs;  // of the graph, that it makes
  std::vector<ir::ValueId> held;     // what steps before it made, but for inputs and constants, and it reads
  std::vector<bool> kept;            // by value: it may share memory with what is held
};

// `apart`: outputs that may be in fresh memory. `exprs`: the values of the graph's size expressions.
EndingPlan PlanEnding(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps,
                      const std::vector<bool>& apart, const std::vector<std::int64_t>& exprs);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_ENDING_H_
