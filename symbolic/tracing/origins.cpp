// Where each node of a closed recording comes from. See state.h.
#include "absl/container/flat_hash_map.h"
#include "symbolic/tracing/state.h"

namespace framefuse::tracing {

std::vector<std::int32_t> ResolveOrigins(ir::Graph& graph, OriginProvider* origins) {
  std::vector<std::int32_t> ids;
  ids.reserve(graph.nodes.size());
  absl::flat_hash_map<std::int32_t, ir::OriginId> known;
  for (ir::Node& n : graph.nodes) {
    if (origins == nullptr) n.origin = -1;
    ids.push_back(n.origin);
    if (n.origin < 0) continue;
    auto [it, inserted] = known.try_emplace(n.origin, -1);
    if (inserted) it->second = graph.AddOrigin(origins->Resolve(n.origin));
    n.origin = it->second;
  }
  return ids;
}

}  // namespace framefuse::tracing
