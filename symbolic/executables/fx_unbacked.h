// fx_unbacked: numbers that a graph for an FX backend computes (ir::OutputRole::kUnbacked). The module returns the
// tensors that hold them behind its own results. Invariant: no operator of the module takes such a number, and nothing
// is relied on about it, for a callable of Python's is not left halfway.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_UNBACKED_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_UNBACKED_H_

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse {

// The values that hold such numbers, each once, in the order of the module's results.
std::vector<ir::ValueId> UnbackedValues(const ir::Graph& graph);

// Something is relied on about them.
bool ReliesOnUnbacked(const ir::Graph& graph);

// The graph as one would be recorded that returns these values.
void ReturnUnbackedValues(ir::Graph* graph);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_UNBACKED_H_
