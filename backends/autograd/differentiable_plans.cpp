#include "backends/autograd/differentiable_plans.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/autograd/detached_results.h"
#include "backends/autograd/histories.h"
#include "backends/autograd/saved_copies.h"
#include "backends/autograd/saved_elements.h"
#include "backends/graph/collectives.h"
#include "backends/graph/input_writes.h"
#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"
#include "backends/runtime/aten_sequence.h"
#include "backends/runtime/differentiable_ops.h"
#include "common/check.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

}  // namespace

DifferentiablePlans::DifferentiablePlans(const BackwardPlan& plan) : plan_(plan) {
  FindInputs();
  FindReadByData();
}

void DifferentiablePlans::FindInputs() {
  const Graph& joint = plan_.joint();
  const std::vector<bool> constant = ConstantValues(joint);
  std::vector<bool> is_saved(joint.values.size(), false), taken = is_saved;
  for (const SavedValue& s : plan_.saved()) {
    is_saved[At(s.value)] = true;
    taken[At(s.value)] = constant[At(s.value)] || s.of_written >= 0;
  }
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

std::vector<ValueId> DifferentiablePlans::HeldBefore(std::int32_t i) const {
  const ir::Input& in = plan_.joint().inputs[At(i)];
  std::vector<ValueId> before;
  if (!in.mutated || in.mutated_output < 0) return before;
  for (const SavedValue& s : plan_.saved()) {
    const bool at_last = s.value == plan_.joint().outputs[At(in.mutated_output)].value;
    if (s.of_written == i && !at_last) before.push_back(s.value);
  }
  return before;
}

void DifferentiablePlans::FindReadByData() {
  for (std::size_t i = 0; i < plan_.joint().inputs.size(); ++i) {
    const auto input = static_cast<std::int32_t>(i);
    if (IsReadByData(plan_.joint(), HeldBefore(input))) read_by_data_.push_back(input);
  }
  for (const SavedValue& s : plan_.saved()) {
    const bool is_before = s.of_written >= 0 && !s.is_new && plan_.joint().inputs[At(s.of_written)].mutated_uncounted;
    asks_no_version_.push_back(is_before && IsReadByDataAlone(plan_.joint(), s.value));
  }
}

absl::StatusOr<const DifferentiablePlan*> DifferentiablePlans::Find(const BackwardPlan::Key& key,
                                                                    const Wish& wish) const {
  std::lock_guard lock(mutex_);
  std::unique_ptr<DifferentiablePlan>& found =
      found_[absl::StrCat(key.Name(), "|", wish.through, wish.watch ? "|watched|" : "|", wish.detached)];
  if (found == nullptr) {
    FF_ASSIGN_OR_RETURN(found, Compile(key, wish));
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

namespace {

// Of which it is a view.
ValueId WholeOf(const Graph& g, const std::vector<ir::NodeIndex>& definitions, ValueId v) {
  while (v != kNoValue && definitions[At(v)] != ir::kNoNode) {
    const Node& n = g.nodes[At(definitions[At(v)])];
    const int viewed = n.op->is_view() ? n.op->returns()[0].viewed_argument : -1;
    if (viewed < 0 || n.args[At(viewed)].kind != ir::Arg::Kind::kValue) break;
    v = n.args[At(viewed)].value;
  }
  return v;
}

}  // namespace

ValueId DifferentiablePlans::ResultOf(std::size_t result, const Graph& joint) const {
  return joint.outputs[At(plan_.results()[result])].value;
}

std::vector<bool> DifferentiablePlans::ComputedFor(const std::vector<std::int32_t>& readers) const {
  std::vector<bool> computed(plan_.saved().size(), false);
  for (std::size_t s = 0; s < computed.size(); ++s) {
    const std::vector<std::int32_t>& of_value = plan_.use().ReadersOf(s);
    computed[s] = !plan_.saved()[s].is_input && std::any_of(of_value.begin(), of_value.end(), [&](std::int32_t n) {
      return std::binary_search(readers.begin(), readers.end(), n);
    });
  }
  return computed;
}

std::string DifferentiablePlans::ResultsPassed(const std::vector<std::int32_t>& readers) const {
  const auto is_read = [&](std::size_t s) {
    const std::vector<std::int32_t>& of_value = plan_.use().ReadersOf(s);
    return std::any_of(of_value.begin(), of_value.end(),
                       [&](std::int32_t n) { return std::binary_search(readers.begin(), readers.end(), n); });
  };
  const bool functions = !ir::TurnsOfFunctions(plan_.joint()).empty();
  std::string results(plan_.results().size(), '0');
  const std::vector<ir::NodeIndex> definitions = plan_.joint().Definitions();
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (r < plan_.tangents().size() && !plan_.IsOfView(r) && functions) results[r] = '1';
    const ValueId result = ResultOf(r, plan_.joint());
    const ValueId whole = WholeOf(plan_.joint(), definitions, result);  // perhaps an input
    for (std::size_t s = 0; s < plan_.saved().size() && result != kNoValue; ++s) {
      const ValueId v = plan_.saved()[s].value;
      if ((v == result || v == whole) && is_read(s)) results[r] = '1';
    }
  }
  return results;
}

std::vector<HeldByInput> DifferentiablePlans::ReadCopies(std::vector<bool> constant, Graph* joint) const {
  std::vector<ValueId> copies;
  std::vector<HeldByInput> before;
  for (std::size_t r = 0; r < read_by_data_.size(); ++r) {
    for (const ValueId v : HeldBefore(read_by_data_[r])) before.push_back({v, static_cast<std::int32_t>(r)});
  }
  for (const SavedValue& s : plan_.saved()) {
    constant[At(s.value)] = false;
    if (s.is_copy) copies.push_back(s.value);
  }
  return ReadSavedCopies(*joint, copies, constant, before);
}

void DifferentiablePlans::CutDetached(const std::string& detached, ir::Graph& joint) const {
  if (detached.empty()) return;
  const std::vector<std::int64_t> functions = ir::TurnsOfFunctions(joint);
  const auto is_detached = [&](ValueId v) {
    for (std::size_t s = 0; s < detached.size(); ++s) {
      if (detached[s] == '1' && plan_.saved()[s].value == v) return true;
    }
    return false;
  };
  for (Node& n : joint.nodes) {
    if (n.phase != ir::Phase::kBackward || std::count(functions.begin(), functions.end(), n.sequence) == 0) continue;
    std::size_t use = 0;
    ir::ForEachUse(n, [&](ValueId v) {
      if (use < 64 && is_detached(v)) n.detached_uses |= std::uint64_t{1} << use;
      ++use;
    });
  }
}

absl::StatusOr<std::unique_ptr<DifferentiablePlan>> DifferentiablePlans::Compile(const BackwardPlan::Key& key,
                                                                                 const Wish& wish) const {
  const std::string& through = wish.through;
  Graph joint = plan_.joint();
  std::vector<bool> constant = ConstantValues(plan_.joint());
  const std::vector<HeldByInput> by_data = ReadCopies(constant, &joint);
  std::vector<BackwardPlan::CutPoint> places;
  for (const BackwardPlan::OutputGradient& o : plan_.CutBy(key)) {
    places.push_back({At(plan_.gradients()[o.gradient]), joint.inputs[At(plan_.tangents()[o.tangent])].value});
  }
  FF_RETURN_IF_ERROR(BackwardPlan::CutAt(joint, places));
  const std::vector<bool> comes = DropUndefined(plan_, key, joint);
  constant.resize(joint.values.size(), false);
  CutDetached(wish.detached, joint);
  CutHistories(joint, constant);
  MakeDifferentiable(joint);
  std::vector<ValueId> saved;
  for (const SavedValue& s : plan_.saved()) saved.push_back(s.value);
  const std::vector<ValueId> elements = GiveElements(joint, saved, wish.watch);
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
  for (const SavedValue& s : plan_.saved()) {
    taken[At(s.value)] = s.of_written >= 0 || (!s.IsInputItself() && constant[At(s.value)]);
  }
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
  FF_ASSIGN_OR_RETURN(std::unique_ptr<DifferentiablePlan> found,
                      Differentiate(joint, outputs, taken, elements, results, by_data));
  if (!results.empty()) {
    FF_ASSIGN_OR_RETURN(const std::vector<std::int32_t> readers, plan_.ReadersFor(key));
    const std::vector<bool> computed = ComputedFor(readers);
    for (std::size_t s = 0; s < computed.size(); ++s) {  // their histories have no part in these values
      if (computed[s]) taken[At(plan_.saved()[s].value)] = true;
    }
    FF_ASSIGN_OR_RETURN(found->of_results, Differentiate(joint, values, taken, elements, {}, {}));
  }
  found->gradients = std::move(gradients);
  return found;
}

absl::StatusOr<std::unique_ptr<DifferentiablePlan>> DifferentiablePlans::Differentiate(
    const Graph& joint, const std::vector<ir::Output>& outputs, const std::vector<bool>& taken,
    const std::vector<ValueId>& elements, const std::vector<std::size_t>& results,
    const std::vector<HeldByInput>& by_data) const {
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
    FF_RET_CHECK(!in.mutated) << "a second derivative from what input " << in.name << " held before it was written";
    result->inputs.push_back(static_cast<std::int32_t>(i));
    builder.AddInput(in.value, ir::Input());
  }
  for (std::size_t s = 0; s < plan_.saved().size(); ++s) {
    const ValueId value = plan_.saved()[s].value;
    if (!taken[At(value)] || !closure.used[At(value)]) continue;
    result->saved.push_back(static_cast<std::int32_t>(s));
    builder.AddInput(value, ir::Input());
  }
  for (std::size_t s = 0; s < elements.size(); ++s) {
    if (elements[s] == kNoValue || !closure.used[At(elements[s])]) continue;
    result->elements.push_back(static_cast<std::int32_t>(s));
    builder.AddInput(elements[s], ir::Input());
  }
  for (const std::size_t t : results) {
    result->results.push_back(t);
    builder.AddInput(ResultOf(t, joint), ir::Input());
  }
  for (std::size_t i = 0; i < joint.nodes.size(); ++i) {
    if (!closure.nodes[i]) continue;
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
  for (const HeldByInput& h : by_data) {
    if (!closure.used[At(h.value)]) continue;
    ir::Output o;
    o.value = h.value;
    builder.AddOutput(o);
    result->read_by_data.push_back(At(h.number));
  }
  Graph graph = builder.Take();
  FF_RETURN_IF_ERROR(ir::Verify(graph));
  FF_ASSIGN_OR_RETURN(result->executable, AtenSequence::CreateRewritten(std::move(graph)));
  return result;
}

}  // namespace framefuse
