// as_strided names places in memory, whichever view of it the operator is called on. Before writes become values each
// call is moved to the root, whose value has all of the places.
#ifndef FRAMEFUSE_BACKENDS_PASSES_OFFSETS_OF_ROOTS_H_
#define FRAMEFUSE_BACKENDS_PASSES_OFFSETS_OF_ROOTS_H_

#include "absl/status/status.h"
#include "backends/graph/graph.h"

namespace framefuse {

// Unimplemented, the graph half changed, where a call is on memory that is written and whose beginning is not known: an
// input's, or that of a view of another type.
absl::Status TakeOffsetsFromRoots(ir::Graph& graph);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_OFFSETS_OF_ROOTS_H_
