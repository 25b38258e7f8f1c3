#include "backends/autograd/histories.h"

#include <cstdint>
#include <utility>

#include "backends/graph/operators.h"
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

bool IsDetached(const Node& n, std::size_t use) { return use < 64 && (n.detached_uses >> use & 1) != 0; }

// Whether a derivative of its results is none of the constants' alone. `constant`: by value.
bool CarriesDerivative(const Graph& g, const Node& n, const std::vector<bool>& constant) {
  if (n.history == ir::History::kCut || CutsGradient(g, n)) return false;
  // What is written keeps its history, whatever is written into it.
  if (n.history == ir::History::kCutWrite) return !n.args.empty() && !constant[At(n.args[0].value)];
  bool any = false;
  std::size_t use = 0;
  ir::ForEachUse(n, [&](ValueId v) { any = any || (!IsDetached(n, use++) && !constant[At(v)]); });
  return any;
}

ValueId NewValueLike(Graph& g, ValueId v) {
  ir::Value metadata = g.value(v);
  return g.AddValue(std::move(metadata));
}

// What was written without a history: its elements, with the history that was there before.
void KeepHistory(Graph& joint, Node n, std::vector<Node>* nodes) {
  Node keep;
  keep.op = KeepsHistory();
  keep.phase = n.phase;
  keep.origin = n.origin;
  keep.outputs = n.outputs;
  const ValueId before = n.args[0].value;
  n.outputs[0] = NewValueLike(joint, n.outputs[0]);
  n.history = ir::History::kKept;
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
  const auto detach = [&](ValueId from, ValueId to, const Node& at) {
    Node n;
    n.op = ir::RequireOp(ir::OpName::kDetach);
    n.args = {Arg::OfValue(from)};
    n.outputs = {to};
    n.phase = at.phase;
    n.origin = at.origin;
    nodes.push_back(std::move(n));
  };
  for (Node& recorded : joint.nodes) {
    Node n = std::move(recorded);
    bool reads = false;
    ir::ForEachUse(n, [&](ValueId v) { reads = reads || !constant[At(v)]; });
    auto detach_use = [&, use = std::size_t{0}](ValueId& v) mutable {
      if (!IsDetached(n, use++) || constant[At(v)]) return;
      const ValueId cut = NewValueLike(joint, v);
      detach(v, cut, n);
      v = cut;
    };
    if (n.history == ir::History::kCutWrite && !CarriesDerivative(joint, n, constant)) n.history = ir::History::kCut;
    if (n.history == ir::History::kCutWrite) {
      KeepHistory(joint, std::move(n), &nodes);
      continue;
    }
    for (Arg& a : n.args) {
      if (a.kind == Arg::Kind::kValue) detach_use(a.value);
      for (ValueId& v : a.values) {
        if (a.kind == Arg::Kind::kValueList && v != kNoValue) detach_use(v);
      }
    }
    std::vector<std::pair<ValueId, ValueId>> cuts;
    for (ValueId& v : n.outputs) {
      if (n.history != ir::History::kCut || !reads || v == kNoValue) continue;
      if (joint.value(v).kind != ir::ValueKind::kTensor) continue;
      cuts.emplace_back(NewValueLike(joint, v), v);
      v = cuts.back().first;
    }
    nodes.push_back(std::move(n));
    const Node at = nodes.back();
    for (const auto& [from, to] : cuts) detach(from, to, at);
  }
  joint.nodes = std::move(nodes);
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
