// EarlyWrite: whether an operator that writes a part of an input (a cache of keys and values, say) may write the input
// itself when the graph comes to it, long before its end.
// Invariant: nothing else of the graph reads the input, and nothing that runs after the write may raise, for then the
// program's handlers would see a write that eager has made and what stands before it would run again.
#ifndef FRAMEFUSE_BACKENDS_FUSION_EARLY_WRITES_H_
#define FRAMEFUSE_BACKENDS_FUSION_EARLY_WRITES_H_

#include <memory>
#include <vector>

#include "backends/fusion/step.h"

namespace framefuse::fusion {

// The step in which the node that makes `result` may write `input`; steps.size(): none.
std::size_t FindEarlyWrite(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps, ir::ValueId result,
                           ir::ValueId input);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_EARLY_WRITES_H_
