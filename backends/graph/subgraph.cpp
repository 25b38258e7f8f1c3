#include "backends/graph/subgraph.h"

#include <utility>

#include "common/indexed_vector.h"

namespace framefuse::ir {

SubgraphBuilder::SubgraphBuilder(const Graph& from, std::string name)
    : from_(from), map_(from.values.size(), kNoValue), constant_of_(from.values.size(), -1) {
  graph_.name = std::move(name);
  graph_.exprs = from.exprs;
  graph_.origins = from.origins;
  graph_.functional = from.functional;
  for (std::size_t i = 0; i < from.constants.size(); ++i) {
    constant_of_[static_cast<std::size_t>(from.constants[i].value)] = static_cast<std::int32_t>(i);
  }
}

ValueId SubgraphBuilder::Define(ValueId value) {
  if (value == kNoValue) return kNoValue;
  ValueId id = graph_.AddValue(from_.value(value));
  map_[static_cast<std::size_t>(value)] = id;
  return id;
}

ValueId SubgraphBuilder::Use(ValueId value) {
  if (value == kNoValue) return kNoValue;
  auto at = static_cast<std::size_t>(value);
  if (map_[at] == kNoValue && constant_of_[at] >= 0) {
    Define(value);
    graph_.constants.push_back({map_[at], from_.constants[static_cast<std::size_t>(constant_of_[at])].tensor});
  }
  return map_[at];
}

void SubgraphBuilder::AddInput(ValueId value, Input facts) {
  facts.value = Define(value);
  graph_.inputs.push_back(std::move(facts));
}

void SubgraphBuilder::AddNode(const Node& node) {
  Node copy = node;
  for (Arg& a : copy.args) {
    if (a.kind == Arg::Kind::kValue) a.value = Use(a.value);
    if (a.kind == Arg::Kind::kValueList) {
      for (ValueId& v : a.values) v = Use(v);
    }
  }
  for (ValueId& v : copy.outputs) v = Define(v);
  graph_.nodes.push_back(std::move(copy));
}

void SubgraphBuilder::AddOutput(Output facts) {
  facts.value = Use(facts.value);
  graph_.outputs.push_back(facts);
}

std::vector<bool> NodesNeededFor(const Graph& graph, const std::vector<ValueId>& values) {
  IndexedVector<ValueId, bool> live(graph.values.size(), false);
  for (ValueId v : values) {
    if (v != kNoValue) live[v] = true;
  }
  std::vector<bool> needed(graph.nodes.size(), false);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& n = graph.nodes[i];
    for (ValueId v : n.outputs) needed[i] = needed[i] || (v != kNoValue && live[v]);
    if (needed[i]) ForEachUse(n, [&](ValueId v) { live[v] = true; });
  }
  return needed;
}

const Output& WithHistory(const Graph& graph, const Output& o) {
  return o.alias == OutputAlias::kViewOfOutput ? graph.outputs[static_cast<std::size_t>(o.alias_of)] : o;
}

std::vector<std::int32_t> InputsNeededFor(const Graph& graph, ValueId value) {
  IndexedVector<ValueId, bool> used(graph.values.size(), false);
  used[value] = true;
  const std::vector<bool> needed = NodesNeededFor(graph, {value});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (needed[i]) ForEachUse(graph.nodes[i], [&](ValueId v) { used[v] = true; });
  }
  std::vector<std::int32_t> inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Input& in = graph.inputs[i];
    if (in.role == InputRole::kTangent || !used[in.value]) continue;
    inputs.push_back(static_cast<std::int32_t>(i));
  }
  return inputs;
}

}  // namespace framefuse::ir
