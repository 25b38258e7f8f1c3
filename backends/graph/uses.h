// Who reads the values of a graph. CountUses: how often nodes and outputs do; a value that is read once may be taken
// apart by the one pass that rewrites its reader. LastUses: which node does last.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_USES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_USES_H_

#include <cstddef>
#include <cstdint>
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

// The node after which each value is dead; constants and values of outputs live to the end.
inline std::vector<std::int32_t> LastUses(const Graph& graph) {
  std::vector<std::int32_t> last(graph.values.size(), -1);
  const auto at = [&](ValueId v) -> std::int32_t& { return last[static_cast<std::size_t>(v)]; };
  const auto end = static_cast<std::int32_t>(graph.nodes.size());
  for (std::int32_t i = 0; i < end; ++i) {
    const Node& n = graph.nodes[static_cast<std::size_t>(i)];
    for (ValueId v : n.outputs) {
      if (v != kNoValue) at(v) = i;
    }
    ForEachUse(n, [&](ValueId v) { at(v) = i; });
  }
  for (const Output& o : graph.outputs) {
    if (o.value != kNoValue) at(o.value) = end;
  }
  for (const ConstantTensor& c : graph.constants) at(c.value) = end;
  return last;
}

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_USES_H_
