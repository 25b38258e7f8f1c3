// Results in the memory of what dies: a kernel that is the last to read a value writes a result of the same layout over
// it, point by point, and so does a collective with an in-place form. A call then takes less memory, and copies less.
// Invariant: only memory that a step of this graph allocated is taken, that no output has, and that no later step may
// read, by whatever name.
#ifndef FRAMEFUSE_BACKENDS_FUSION_REUSE_MEMORY_H_
#define FRAMEFUSE_BACKENDS_FUSION_REUSE_MEMORY_H_

#include <memory>
#include <vector>

#include "backends/fusion/step.h"

namespace framefuse::fusion {

// How many results do.
int ReuseMemory(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_REUSE_MEMORY_H_
