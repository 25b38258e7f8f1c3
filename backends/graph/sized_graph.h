// sized_graph: a graph with symbolic sizes as it is for given values of its integer symbols.
// Invariant: the result's only symbols are floats, whose hints are the given values, and it is the graph that would
// have been recorded for these sizes.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_SIZED_GRAPH_H_
#define FRAMEFUSE_BACKENDS_GRAPH_SIZED_GRAPH_H_

#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse::ir {

Graph WithSizes(const Graph& graph, absl::Span<const std::int64_t> symbols);
// Whether an integer follows from a float: int(8 * scale).
bool HasSizesOfFloats(const ExprTable& exprs);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_SIZED_GRAPH_H_
