#include "backends/autograd/differentiable_plans.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/differentiable_ops.h"
#include "common/index.h"
#include "common/status.h"

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

// Detaches what eager's histories do not go through: torch's engine will not, either. A write below a history stays
// marked; one where there is none makes constants.
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

// What a differentiable run of the joint graph reads and executes, with saved constants taken as they are.
struct Closure {
  std::vector<bool> nodes;
  std::vector<bool> used;  // by value
};

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

}  // namespace

DifferentiablePlans::DifferentiablePlans(const BackwardPlan& plan) : plan_(plan) { FindInputs(); }

std::vector<bool> DifferentiablePlans::ConstantValues() const {
  const Graph& joint = plan_.joint();
  std::vector<bool> constant(joint.values.size(), true);
  for (std::size_t g = 0; g < plan_.input_gradients(); ++g) {
    constant[At(joint.inputs[At(joint.outputs[At(plan_.gradients()[g])].input)].value)] = false;
  }
  for (std::int32_t t : plan_.tangents()) constant[At(joint.inputs[At(t)].value)] = false;
  for (const Node& n : joint.nodes) {
    if (!CarriesDerivative(joint, n, constant)) continue;
    for (ValueId v : n.outputs) {
      if (v != kNoValue) constant[At(v)] = false;
    }
  }
  return constant;
}

void DifferentiablePlans::FindInputs() {
  const Graph& joint = plan_.joint();
  std::vector<bool> taken = ConstantValues();
  std::vector<bool> is_saved(joint.values.size(), false);
  for (const SavedValue& s : plan_.saved()) is_saved[At(s.value)] = true;
  for (std::size_t v = 0; v < taken.size(); ++v) taken[v] = taken[v] && is_saved[v];
  std::vector<ValueId> roots;
  for (std::int32_t o : plan_.gradients()) roots.push_back(joint.outputs[At(o)].value);
  Closure closure = CloseOver(joint, roots, taken);
  for (std::size_t i = 0; i < joint.inputs.size(); ++i) {
    const ir::Input& in = joint.inputs[i];
    if (in.role == ir::InputRole::kTangent || in.mutated || !closure.used[At(in.value)] || is_saved[At(in.value)])
      continue;
    inputs_.push_back(static_cast<std::int32_t>(i));
  }
}

absl::StatusOr<const DifferentiablePlan*> DifferentiablePlans::Find(const BackwardPlan::Key& key,
                                                                    const std::string& through) const {
  std::lock_guard lock(mutex_);
  std::unique_ptr<DifferentiablePlan>& found = found_[absl::StrCat(key.Name(), "|", through)];
  if (found == nullptr) {
    FF_ASSIGN_OR_RETURN(found, Compile(key, through));
  }
  return found.get();
}

namespace {

// What depends on undefined tangents alone leaves the joint graph: computed with zeros, it may meet an infinity.
// Returns which gradients are wanted and come.
std::vector<bool> DropUndefined(const BackwardPlan& plan, const BackwardPlan::Key& key, Graph& joint) {
  std::vector<ValueId> tangents;
  for (const std::int32_t t : plan.tangents()) tangents.push_back(joint.inputs[At(t)].value);
  const TangentUse use(joint, tangents);
  use.DropUndefined(joint, key.defined);
  std::vector<bool> comes(key.wanted.size());
  for (std::size_t g = 0; g < comes.size(); ++g) {
    const ValueId v = joint.outputs[At(plan.gradients()[g])].value;
    comes[g] = key.wanted[g] == '1' && v != kNoValue && !use.IsLeftOut(v, key.defined);
  }
  return comes;
}

}  // namespace

ValueId DifferentiablePlans::ResultOf(std::size_t tangent, const Graph& joint) const {
  return joint.outputs[At(joint.inputs[At(plan_.tangents()[tangent])].tangent_of)].value;
}

absl::StatusOr<std::unique_ptr<DifferentiablePlan>> DifferentiablePlans::Compile(const BackwardPlan::Key& key,
                                                                                 const std::string& through) const {
  Graph joint = plan_.joint();
  std::vector<BackwardPlan::CutPoint> places;
  for (const BackwardPlan::OutputGradient& o : plan_.CutBy(key)) {
    places.push_back({At(plan_.gradients()[o.gradient]), joint.inputs[At(plan_.tangents()[o.tangent])].value});
  }
  FF_RETURN_IF_ERROR(BackwardPlan::CutAt(joint, places));
  const std::vector<bool> comes = DropUndefined(plan_, key, joint);
  std::vector<bool> constant = ConstantValues();
  constant.resize(joint.values.size(), false);
  CutHistories(joint, constant);
  MakeDifferentiable(joint);
  std::vector<ValueId> roots;
  std::vector<ir::Output> outputs;
  std::vector<std::int32_t> gradients;
  for (std::size_t g = 0; g < comes.size(); ++g) {
    if (!comes[g]) continue;
    ir::Output o = plan_.graph().outputs[g];
    o.value = joint.outputs[At(plan_.gradients()[g])].value;
    roots.push_back(o.value);
    outputs.push_back(std::move(o));
    gradients.push_back(static_cast<std::int32_t>(g));
  }
  std::vector<bool> taken(joint.values.size(), false);
  for (const SavedValue& s : plan_.saved()) taken[At(s.value)] = !s.is_input && constant[At(s.value)];
  const std::vector<ir::NodeIndex> definitions = joint.Definitions();
  const Closure all = CloseOver(joint, roots, taken);
  std::vector<std::size_t> results;
  std::vector<ir::Output> values;
  for (std::size_t t = 0; t < through.size(); ++t) {
    const ValueId v = through[t] == '1' ? ResultOf(t, joint) : kNoValue;
    if (v == kNoValue || !all.used[At(v)] || taken[At(v)] || definitions[At(v)] == ir::kNoNode) continue;
    const bool is_there = std::any_of(values.begin(), values.end(), [v](const ir::Output& o) { return o.value == v; });
    if (is_there) continue;
    results.push_back(t);
    values.emplace_back().value = v;
  }
  FF_ASSIGN_OR_RETURN(std::unique_ptr<DifferentiablePlan> found, Differentiate(joint, outputs, taken, results));
  if (!results.empty()) {
    FF_ASSIGN_OR_RETURN(found->of_results, Differentiate(joint, values, taken, {}));
  }
  found->gradients = std::move(gradients);
  return found;
}

absl::StatusOr<std::unique_ptr<DifferentiablePlan>> DifferentiablePlans::Differentiate(
    const Graph& joint, const std::vector<ir::Output>& outputs, const std::vector<bool>& taken,
    const std::vector<std::size_t>& results) const {
  auto result = std::make_unique<DifferentiablePlan>();
  std::vector<ValueId> roots;
  for (const ir::Output& o : outputs) roots.push_back(o.value);
  std::vector<bool> given = taken;
  for (const std::size_t t : results) given[At(ResultOf(t, joint))] = true;
  const Closure closure = CloseOver(joint, roots, given);
  ir::SubgraphBuilder builder(joint, joint.name + ".differentiable");
  for (std::size_t i = 0; i < joint.inputs.size(); ++i) {
    const ir::Input& in = joint.inputs[i];
    if (!closure.used[At(in.value)]) continue;
    if (in.mutated) {
      return absl::UnimplementedError(absl::StrCat("create_graph=True needs the value that an input",
                                                   in.name.empty() ? "" : " (" + in.name + ")",
                                                   " had before it was written"));
    }
    result->inputs.push_back(static_cast<std::int32_t>(i));
    builder.AddInput(in.value, ir::Input());
  }
  for (std::size_t s = 0; s < plan_.saved().size(); ++s) {
    const ValueId value = plan_.saved()[s].value;
    if (!taken[At(value)] || !closure.used[At(value)]) continue;
    result->saved.push_back(static_cast<std::int32_t>(s));
    builder.AddInput(value, ir::Input());
  }
  for (const std::size_t t : results) {
    result->results.push_back(t);
    builder.AddInput(ResultOf(t, joint), ir::Input());
  }
  for (std::size_t i = 0; i < joint.nodes.size(); ++i) {
    if (!closure.nodes[i]) continue;
    if (joint.nodes[i].history == ir::History::kCutWrite) {
      return absl::UnimplementedError(
          "create_graph=True through a tensor that was written without its history (in no_grad, or detached)");
    }
    const bool random = joint.nodes[i].op->is_random();
    if (joint.nodes[i].phase == ir::Phase::kForward && (random || ir::SpeaksToOthers(joint.nodes[i]))) {
      return absl::UnimplementedError(absl::StrCat("create_graph=True would run ", joint.nodes[i].op->name(), " again",
                                                   random ? ", with other random numbers" : ""));
    }
    Node n = joint.nodes[i];
    n.phase = ir::Phase::kForward;
    // A given value is an input already; its node may run for another of its results.
    for (ValueId& v : n.outputs) v = v != kNoValue && given[At(v)] ? kNoValue : v;
    builder.AddNode(n);
  }
  for (const ir::Output& o : outputs) builder.AddOutput(o);
  Graph graph = builder.Take();
  FF_RETURN_IF_ERROR(ir::Verify(graph));
  FF_ASSIGN_OR_RETURN(result->executable, AtenSequence::CreateRewritten(std::move(graph)));
  return result;
}

}  // namespace framefuse
