#include "backends/autograd/histories.h"

#include <cstdint>
#include <utility>

#include "backends/graph/operators.h"
#include "backends/graph/spelled_histories.h"
#include "backends/graph/subgraph.h"
#include "backends/runtime/differentiable_ops.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::Arg;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// Results whose elements carry no derivative of the operator's inputs.
bool CutsGradient(const Graph& g, const Node& n) {
  if (ir::Has(n.op, ir::OpFact::kCutsGradient)) return true;
  bool floating = false;
  for (ValueId v : n.outputs) {
    if (v == kNoValue) continue;
    c10::ScalarType t = g.value(v).dtype;
    floating =
        floating || (g.value(v).kind == ir::ValueKind::kTensor && (c10::isFloatingType(t) || c10::isComplexType(t)));
  }
  return !floating;
}

// Whether a derivative of its results is none of the constants' alone. `constant`: by value.
bool CarriesDerivative(const Graph& g, const Node& n, const std::vector<bool>& constant) {
  if (n.history == ir::History::kCut || CutsGradient(g, n)) return false;
  // What is written keeps its history, whatever is written into it.
  if (n.history == ir::History::kCutWrite) return !n.args.empty() && !constant[At(n.args[0].value)];
  bool any = false;
  std::size_t use = 0;
  ir::ForEachUse(n, [&](ValueId v) { any = any || (!ir::IsDetached(n, use++) && !constant[At(v)]); });
  return any;
}

// What was written without a history: its elements, with the history that was there before.
void KeepHistory(Graph& joint, Node n, std::vector<Node>* nodes) {
  Node keep;
  keep.op = KeepsHistory();
  keep.phase = n.phase;
  keep.origin = n.origin;
  keep.outputs = n.outputs;
  const ValueId before = n.args[0].value;
  ir::Value metadata = joint.value(n.outputs[0]);
  n.outputs[0] = joint.AddValue(std::move(metadata));
  n.history = ir::History::kKept;
  n.detached_uses = 0;  // the history is the other's
  keep.args = {Arg::OfValue(n.outputs[0]), Arg::OfValue(before)};
  nodes->push_back(std::move(n));
  nodes->push_back(std::move(keep));
}

}  // namespace

std::vector<bool> ConstantValues(const Graph& joint) {
  std::vector<bool> constant(joint.values.size(), true);
  for (const ir::Output& o : joint.outputs) {
    const bool of_input = o.role == ir::OutputRole::kGradient && o.input >= 0;
    if (of_input) constant[At(joint.inputs[At(o.input)].value)] = false;
  }
  for (const ir::Input& in : joint.inputs) {
    if (in.role == ir::InputRole::kTangent) constant[At(in.value)] = false;
  }
  for (const Node& n : joint.nodes) {
    if (!CarriesDerivative(joint, n, constant)) continue;
    for (ValueId v : n.outputs) {
      if (v != kNoValue) constant[At(v)] = false;
    }
  }
  return constant;
}

void CutHistories(Graph& joint, const std::vector<bool>& constant) {
  std::vector<Node> nodes;
  nodes.reserve(joint.nodes.size());
  for (Node& n : joint.nodes) {
    const bool written = n.history == ir::History::kCutWrite;
    if (written && CarriesDerivative(joint, n, constant)) {
      KeepHistory(joint, std::move(n), &nodes);
      continue;
    }
    if (written) n.history = ir::History::kCut;
    nodes.push_back(std::move(n));
  }
  joint.nodes = std::move(nodes);
  ir::SpellHistories(joint, [&](ValueId v) { return At(v) >= constant.size() || !constant[At(v)]; });
}

Closure CloseOver(const Graph& joint, const std::vector<ValueId>& roots, const std::vector<bool>& taken) {
  Closure c{std::vector<bool>(joint.nodes.size(), false), std::vector<bool>(joint.values.size(), false)};
  for (ValueId v : roots) {
    if (v != kNoValue) c.used[At(v)] = true;
  }
  for (std::size_t i = joint.nodes.size(); i-- > 0;) {
    const Node& n = joint.nodes[i];
    for (ValueId v : n.outputs) c.nodes[i] = c.nodes[i] || (v != kNoValue && c.used[At(v)] && !taken[At(v)]);
    if (c.nodes[i]) ir::ForEachUse(n, [&](ValueId v) { c.used[At(v)] = true; });
  }
  return c;
}

}  // namespace framefuse
