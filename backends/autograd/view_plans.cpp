#include "backends/autograd/view_plans.h"

#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "common/index.h"

namespace framefuse {
namespace {

std::vector<ir::ValueId> ValuesOfInput(const ir::Graph& g, std::int32_t input) {
  std::vector<ir::ValueId> values = {g.inputs[At(input)].value};
  for (const ir::Output& o : g.outputs) {
    if (o.role == ir::OutputRole::kMutatedInput && o.input == input) values.push_back(o.value);
  }
  return values;
}

// By value: the argument itself that a node of the forward writes.
std::vector<bool> WrittenValues(const ir::Graph& g) {
  std::vector<bool> written(g.values.size(), false);
  for (const ir::Node& n : g.nodes) {
    for (std::size_t a = 0; a < n.args.size() && n.phase == ir::Phase::kForward; ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ir::ValueId v) { written[At(v)] = true; });
    }
  }
  return written;
}

}  // namespace

std::vector<ViewPlan> PlanViews(const ir::Graph& g) {
  std::vector<ViewPlan> plans(g.outputs.size());
  const std::vector<bool> written = WrittenValues(g);
  absl::flat_hash_map<ir::ValueId, std::int32_t> views;  // that have a history
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const ir::Output& o = g.outputs[i];
    const bool has_history = ir::IsView(o) && o.requires_grad && !o.detached && o.value != ir::kNoValue;
    if (has_history) views.try_emplace(o.value, static_cast<std::int32_t>(i));
  }
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const ir::Output& o = g.outputs[i];
    if (!ir::IsView(o) || o.value == ir::kNoValue) continue;
    plans[i].is_written = written[At(o.value)] && o.requires_grad && !o.detached;
    std::vector<ir::ValueId> bases = o.alias == ir::OutputAlias::kViewOfInput
                                         ? ValuesOfInput(g, o.alias_of)
                                         : std::vector<ir::ValueId>{g.outputs[At(o.alias_of)].value};
    for (const auto& [value, output] : views) {
      if (value != o.value && views.contains(o.value)) bases.push_back(value);
    }
    plans[i].recipe = ViewRecipe::Create(g, bases, o.value);
    // x.data and x are one value to the graph.
    if (o.alias == ir::OutputAlias::kViewOfOutput && g.outputs[At(o.alias_of)].own_version) continue;
    const auto it = views.find(plans[i].recipe.base());
    if (it != views.end() && it->second != static_cast<std::int32_t>(i)) plans[i].of_output = it->second;
  }
  return plans;
}

}  // namespace framefuse
