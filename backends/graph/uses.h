// CountUses: how often the nodes and outputs of a graph read each value. A value that is read once may be taken apart
// by the one pass that rewrites its reader.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_USES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_USES_H_

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse::ir {

// By value.
inline std::vector<int> CountUses(const Graph& graph) {
  std::vector<int> uses(graph.values.size(), 0);
  const auto count = [&](ValueId v) { ++uses[static_cast<std::size_t>(v)]; };
  for (const Node& n : graph.nodes) ForEachUse(n, count);
  for (const Output& o : graph.outputs) {
    if (o.value != kNoValue) count(o.value);
  }
  return uses;
}

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_USES_H_
