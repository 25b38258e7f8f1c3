#include "symbolic/executables/fx_unbacked.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"

namespace framefuse {

std::vector<ir::ValueId> UnbackedValues(const ir::Graph& graph) {
  std::vector<ir::ValueId> values;
  for (const ir::Output& o : graph.outputs) {
    if (o.role == ir::OutputRole::kUnbacked && !absl::c_linear_search(values, o.value)) values.push_back(o.value);
  }
  return values;
}

bool ReliesOnUnbacked(const ir::Graph& graph) { return graph.deferred != nullptr && !graph.deferred->facts.empty(); }

void ReturnUnbackedValues(ir::Graph* graph) {
  const std::vector<ir::ValueId> values = UnbackedValues(*graph);
  if (values.empty()) return;
  std::erase_if(graph->outputs, [](const ir::Output& o) { return o.role == ir::OutputRole::kUnbacked; });
  const auto is_user = [](const ir::Output& o) { return o.role == ir::OutputRole::kUser; };
  const auto end = std::find_if_not(graph->outputs.begin(), graph->outputs.end(), is_user);  // the user's come first
  const auto first = static_cast<std::int32_t>(end - graph->outputs.begin());
  std::vector<ir::Output> returned;
  for (const ir::ValueId v : values) {
    returned.emplace_back();
    returned.back().value = v;
  }
  graph->outputs.insert(end, returned.begin(), returned.end());
  for (ir::Input& in : graph->inputs) {
    if (in.tangent_of >= first) in.tangent_of += static_cast<std::int32_t>(values.size());
  }
  for (ir::Output& o : graph->outputs) {
    if (o.of_output >= first) o.of_output += static_cast<std::int32_t>(values.size());
  }
  graph->exprs = ir::ExprTable();
  graph->deferred = nullptr;
}

}  // namespace framefuse
