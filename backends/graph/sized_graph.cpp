#include "backends/graph/sized_graph.h"

#include "backends/graph/equal_sizes.h"

namespace framefuse::ir {

Graph WithSizes(const Graph& graph, absl::Span<const std::int64_t> symbols) {
  Graph sized = graph;
  SetIntegers(sized, symbols);
  return sized;
}

}  // namespace framefuse::ir
