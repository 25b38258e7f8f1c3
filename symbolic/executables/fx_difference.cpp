#include "symbolic/executables/fx_difference.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace framefuse {
namespace {

// The constants that are used, by first use: a call that failed has made some that others may use later, or nobody.
void SortConstants(ir::Graph* graph) {
  absl::flat_hash_map<ir::ValueId, std::size_t> first_use;
  const auto note = [&](ir::ValueId v) { first_use.try_emplace(v, first_use.size()); };
  for (const ir::Node& n : graph->nodes) {
    for (const ir::Arg& arg : n.args) ir::ForEachValue(arg, note);
  }
  for (const ir::Output& o : graph->outputs) note(o.value);
  std::erase_if(graph->constants, [&](const ir::ConstantTensor& c) { return !first_use.contains(c.value); });
  const auto is_first = [&](const ir::ConstantTensor& a, const ir::ConstantTensor& b) {
    return first_use[a.value] < first_use[b.value];
  };
  std::sort(graph->constants.begin(), graph->constants.end(), is_first);
}

// What autograd knows of the values and the results.
void ForgetHistories(ir::Graph* graph) {
  for (const ir::Node& n : graph->nodes) {
    for (const ir::ValueId v : n.outputs) {
      if (v != ir::kNoValue) graph->value(v).requires_grad = graph->value(v).of_formula = false;
    }
  }
  std::erase_if(graph->outputs, [](const ir::Output& o) { return o.role == ir::OutputRole::kGradient; });
  for (ir::Output& o : graph->outputs) {
    o.requires_grad = o.spent = false;
    o.underivable.clear();
    o.turns.clear();
  }
}

// A graph as lines, with nothing in it that depends on who recorded it.
std::vector<std::string> LinesOf(const ir::Graph& graph, bool without_grad, int* first_node) {
  ir::Graph plain = graph;
  if (without_grad) ForgetHistories(&plain);
  for (ir::Input& in : plain.inputs) {
    in.name.clear();
    in.role = ir::InputRole::kArgument;
  }
  SortConstants(&plain);
  *first_node = 1 + static_cast<int>(plain.inputs.size() + plain.constants.size());
  ir::PrintOptions options;
  options.origins = false;
  return absl::StrSplit(ir::Print(plain, options), '\n');
}

}  // namespace

std::optional<Difference> Compare(const ir::Graph& recorded, const ir::Graph& computed, bool without_grad) {
  int first = 0, other_first = 0;
  const std::vector<std::string> want = LinesOf(recorded, without_grad, &first);
  const std::vector<std::string> have = LinesOf(computed, without_grad, &other_first);
  for (std::size_t i = 0; i < want.size() || i < have.size(); ++i) {
    const std::string w = i < want.size() ? want[i] : "nothing";
    const std::string h = i < have.size() ? have[i] : "nothing";
    if (w == h) continue;
    const int nodes = static_cast<int>(recorded.nodes.size());
    return Difference{std::clamp(static_cast<int>(i) - first, 0, nodes), false,
                      absl::StrCat(h, " stands where ", w, " was")};
  }
  return std::nullopt;
}

}  // namespace framefuse
