#include "symbolic/executables/fx_difference.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/graph/operators.h"
#include "symbolic/executables/fx_unbacked.h"

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

void Rename(const absl::flat_hash_map<ir::ValueId, ir::ValueId>& names, ir::ValueId* v) {
  const auto found = names.find(*v);
  if (found != names.end()) *v = found->second;
}

// Which number of the program's a constant is: its type, its bits, and whether autograd's formulas made it.
std::tuple<int, std::uint64_t, bool> NumberIn(const ir::Graph& graph, const ir::ConstantTensor& c) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, c.tensor.const_data_ptr(), std::min(c.tensor.nbytes(), sizeof(bits)));
  return {static_cast<int>(c.tensor.scalar_type()), bits, graph.value(c.value).of_formula};
}

bool IsPlainNumber(const ir::Graph& graph, const ir::Node& n) {
  return ir::Is(n.op, ir::OpName::kScalarTensor) && n.args[0].kind == ir::Arg::Kind::kConstant &&
         n.outputs[0] != ir::kNoValue && graph.value(n.outputs[0]).wrapped_number;
}

// An operand that was symbolic until it was looked at is one of the program's numbers, as where it never was.
void MakeConstantsOfNumbers(ir::Graph* graph) {
  absl::flat_hash_map<std::tuple<int, std::uint64_t, bool>, ir::ValueId> known;
  absl::flat_hash_map<ir::ValueId, ir::ValueId> names;
  for (const ir::ConstantTensor& c : graph->constants) {
    if (graph->value(c.value).wrapped_number) known.try_emplace(NumberIn(*graph, c), c.value);
  }
  for (const ir::Node& n : graph->nodes) {
    if (!IsPlainNumber(*graph, n)) continue;
    const ir::ValueId v = n.outputs[0];
    const ir::ConstantTensor made{v, at::scalar_tensor(n.args[0].constant.toScalar(), graph->value(v).dtype)};
    const auto [it, is_new] = known.try_emplace(NumberIn(*graph, made), v);
    if (is_new) graph->constants.push_back(made);
    names.emplace(v, it->second);
  }
  if (names.empty()) return;
  std::erase_if(graph->nodes, [&](const ir::Node& n) { return IsPlainNumber(*graph, n); });
  for (ir::Node& n : graph->nodes) {
    for (ir::Arg& arg : n.args) {
      Rename(names, &arg.value);
      for (ir::ValueId& v : arg.values) Rename(names, &v);
    }
  }
  for (ir::Output& o : graph->outputs) Rename(names, &o.value);
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

// A view of what nobody else sees is a result as others are: what takes another shape in place in the program is a view
// in an FX graph, and a module that runs without histories makes its views so.
void ForgetLoneViews(ir::Graph* graph) {
  absl::flat_hash_map<std::int32_t, int> views;
  for (const ir::Output& o : graph->outputs) {
    if (o.alias == ir::OutputAlias::kViewOfOutput) ++views[o.alias_of];
  }
  std::vector<std::int32_t> moved(graph->outputs.size(), -1);  // a hidden base's number then
  std::vector<ir::Output> kept;
  for (std::size_t i = 0; i < graph->outputs.size(); ++i) {
    const ir::Output& o = graph->outputs[i];
    const bool is_forgotten = o.role == ir::OutputRole::kHidden && views[static_cast<std::int32_t>(i)] == 1;
    if (is_forgotten) graph->value(o.value).requires_grad = false;
    if (is_forgotten) continue;
    moved[i] = static_cast<std::int32_t>(kept.size());
    kept.push_back(o);
  }
  for (ir::Output& o : kept) {
    if (o.alias != ir::OutputAlias::kViewOfOutput) continue;
    o.alias_of = moved[static_cast<std::size_t>(o.alias_of)];
    if (o.alias_of >= 0) continue;
    o.alias = ir::OutputAlias::kFresh;
    o.without_grad = o.detached = o.own_version = false;
  }
  graph->outputs = std::move(kept);
}

// A graph as lines, with nothing in it that depends on who recorded it.
std::vector<std::string> LinesOf(const ir::Graph& graph, bool without_grad, int* first_node) {
  ir::Graph plain = graph;
  ReturnUnbackedValues(&plain);
  if (without_grad) ForgetHistories(&plain);
  ForgetLoneViews(&plain);
  for (ir::Input& in : plain.inputs) {
    in.name.clear();
    in.role = ir::InputRole::kArgument;
  }
  for (ir::Output& o : plain.outputs) o.grad_fn.clear();  // torch names what it runs of the FX graph
  MakeConstantsOfNumbers(&plain);
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
