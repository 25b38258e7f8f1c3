#include "backends/autograd/backward_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/differentiable_plans.h"
#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "backends/graph/recording_probe.h"
#include "backends/graph/subgraph.h"
#include "backends/runtime/aten_sequence.h"
#include "common/check.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

void Replace(Graph& g, const std::vector<ValueId>& taken) {
  for (Node& n : g.nodes) {
    for (ir::Arg& a : n.args) {
      if (a.kind == ir::Arg::Kind::kValue) a.value = taken[At(a.value)];
      for (ValueId& v : a.values) v = v == kNoValue ? v : taken[At(v)];
    }
  }
}

// Where a dimension has one element its stride says nothing.
bool LieAlike(ir::Value a, const ir::Value& b) {
  for (std::size_t d = 0; d < a.strides.size() && a.strides.size() == b.strides.size(); ++d) {
    if (a.sizes[d].Is(1)) a.strides[d] = b.strides[d];
  }
  return EqualMetadata(a, b);
}

}  // namespace

BackwardPlan::BackwardPlan() = default;
BackwardPlan::~BackwardPlan() = default;

absl::Status BackwardPlan::CutAt(Graph& g, const std::vector<CutPoint>& places) {
  std::vector<ValueId> taken(g.values.size());
  for (std::size_t v = 0; v < taken.size(); ++v) taken[v] = static_cast<ValueId>(v);
  for (const CutPoint& p : places) {
    const ValueId gradient = g.outputs[p.output].value;
    if (!LieAlike(g.value(gradient), g.value(p.tangent))) {
      return absl::UnimplementedError("a gradient of another layout than its output's is asked for");
    }
    taken[At(gradient)] = p.tangent;
  }
  Replace(g, taken);
  for (std::size_t o = 0; o < g.outputs.size(); ++o) {
    ir::Output& output = g.outputs[o];
    const bool place = std::any_of(places.begin(), places.end(), [&](const CutPoint& p) { return p.output == o; });
    if (!place && output.value != kNoValue) output.value = taken[At(output.value)];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BackwardPlan>> BackwardPlan::Create(Graph joint, const Partitioned& parts,
                                                                   ExecutableFactory factory,
                                                                   const BackendOptions& options) {
  auto plan = std::unique_ptr<BackwardPlan>(new BackwardPlan);
  plan->joint_ = std::move(joint);
  plan->graph_ = parts.backward;
  plan->saved_ = parts.saved;
  plan->tangents_ = parts.tangents;
  plan->gradients_ = parts.gradients;
  plan->factory_ = std::move(factory);
  plan->options_ = options;
  plan->FindResults();
  FF_RETURN_IF_ERROR(plan->FindOutputGradients());
  plan->FindDependences();
  plan->FindInputClasses();
  // Nodes of several threads might each come to what they share.
  const bool speaks = std::any_of(plan->graph_.nodes.begin(), plan->graph_.nodes.end(), &ir::SpeaksToOthers);
  if (speaks && plan->input_classes_.size() > 1) {
    return absl::UnimplementedError("results that reach different inputs, with a collective in the backward");
  }
  plan->differentiable_ = std::make_unique<DifferentiablePlans>(*plan);
  plan->use_ = std::make_unique<TangentUse>(plan->graph_, plan->saved_.size());
  // Compiled now, so that what the backend refuses is known before the first call.
  FF_RETURN_IF_ERROR(plan->FindVariant(plan->AllInputs()).status());
  return plan;
}

BackwardPlan::Key BackwardPlan::AllInputs() const {
  Key key{std::string(input_gradients(), '1'), std::string(tangents_.size(), '1'), ""};
  key.wanted.resize(gradients_.size(), '0');
  for (std::size_t t = 0; t < tangents_.size(); ++t) key.defined[t] = IsOfView(t) ? '0' : '1';
  return key;
}

bool BackwardPlan::IsOfView(std::size_t tangent) const {
  return ir::IsView(joint_.outputs[At(joint_.inputs[At(tangents_[tangent])].tangent_of)]);
}

bool BackwardPlan::HasViewsOfInputs() const {
  return std::any_of(joint_.outputs.begin(), joint_.outputs.end(),
                     [](const ir::Output& o) { return o.alias == ir::OutputAlias::kViewOfInput && !o.turns.empty(); });
}

void BackwardPlan::FindResults() {
  for (const std::int32_t t : tangents_) results_.push_back(joint_.inputs[At(t)].tangent_of);
  for (std::size_t i = 0; i < joint_.outputs.size(); ++i) {
    const ir::Output& o = joint_.outputs[i];
    const auto output = static_cast<std::int32_t>(i);
    const bool has_tangent = std::find(results_.begin(), results_.end(), output) != results_.end();
    if (ir::IsView(o) && o.value != kNoValue && !has_tangent) results_.push_back(output);
  }
}

absl::Status BackwardPlan::FindOutputGradients() {
  for (std::size_t g = 0; g < gradients_.size(); ++g) {
    const std::int32_t output = joint_.outputs[At(gradients_[g])].of_output;
    FF_RET_CHECK(output >= 0 || output_gradients_.empty()) << "gradients of outputs come last";
    for (std::size_t t = 0; t < tangents_.size() && output >= 0; ++t) {
      if (joint_.inputs[At(tangents_[t])].tangent_of == output) output_gradients_.push_back({g, t});
    }
  }
  return absl::OkStatus();
}

std::vector<BackwardPlan::OutputGradient> BackwardPlan::CutBy(const Key& key) const {
  std::vector<OutputGradient> cut;
  for (std::size_t i = 0; i < key.cut.size(); ++i) {
    if (key.cut[i] == '1') cut.push_back(output_gradients_[i]);
  }
  return cut;
}

void BackwardPlan::FindDependences() {
  const std::size_t tangents = tangents_.size();
  std::vector<ValueId> values;
  for (std::int32_t t : tangents_) values.push_back(joint_.inputs[At(t)].value);
  const std::vector<std::vector<bool>> of_value = TangentsOfValues(joint_, values);
  for (std::int32_t o : gradients_) {
    ValueId v = joint_.outputs[At(o)].value;
    std::vector<bool> depends = v == kNoValue ? std::vector<bool>() : of_value[At(v)];
    // A gradient made from no tangent (zeros) belongs to all of them.
    if (depends.empty()) depends.assign(tangents, v != kNoValue);
    depends_.push_back(std::move(depends));
  }
}

void BackwardPlan::FindInputClasses() {
  std::vector<std::int32_t> own;
  for (std::size_t t = 0; t < tangents_.size(); ++t) {
    if (!IsOfView(t)) own.push_back(static_cast<std::int32_t>(t));
  }
  if (own.empty()) return;
  const auto device = [this](std::int32_t t) { return joint_.value(joint_.inputs[At(tangents_[At(t)])].value).device; };
  for (std::int32_t t : own) is_on_one_device_ = is_on_one_device_ && device(t) == device(own[0]);
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> reached_by;
  for (std::size_t g = 0; g < input_gradients(); ++g) {
    std::vector<std::int32_t> tangents;
    for (std::int32_t t : own) {
      if (Reaches(g, At(t))) tangents.push_back(t);
    }
    if (!tangents.empty()) reached_by[std::move(tangents)].push_back(static_cast<std::int32_t>(g));
  }
  for (auto& [tangents, gradients] : reached_by) input_classes_.push_back({std::move(gradients), tangents});
  if (input_classes_.size() > 1) return;
  if (input_classes_.empty()) input_classes_.push_back({{}, std::move(own)});
  std::vector<std::int32_t>& all = input_classes_[0].gradients;
  all.resize(input_gradients());
  std::iota(all.begin(), all.end(), 0);
}

bool BackwardPlan::Reaches(std::size_t gradient, std::size_t tangent) const {
  const std::vector<std::int32_t>& turns = joint_.outputs[At(gradients_[gradient])].turns;
  return turns.size() == tangents_.size() ? turns[tangent] >= 0 : Depends(gradient, tangent);
}

std::int32_t BackwardPlan::TurnOf(std::size_t gradient, const std::string& defined) const {
  const std::vector<std::int32_t>& turns = joint_.outputs[At(gradients_[gradient])].turns;
  std::int32_t turn = -1;
  for (std::size_t t = 0; t < turns.size() && t < defined.size(); ++t) {
    if (defined[t] == '1') turn = std::max(turn, turns[t]);
  }
  return turn;
}

std::string BackwardPlan::NameOf(std::size_t tangent) const {
  const std::string& name = joint_.outputs[At(joint_.inputs[At(tangents_[tangent])].tangent_of)].grad_fn;
  return name.empty() ? CompiledBackward::kRange : name;
}

std::int32_t BackwardPlan::TurnOfOutput(std::size_t tangent) const {
  const ir::Input& input = joint_.inputs[At(tangents_[tangent])];
  const std::vector<std::int32_t>& turns = joint_.outputs[At(input.tangent_of)].turns;
  return turns.empty() ? -1 : turns.front();
}

std::int64_t BackwardPlan::TurnOfNode(ir::NodeIndex node) const {
  const bool known = std::any_of(gradients_.begin(), gradients_.end(),
                                 [this](std::int32_t o) { return !joint_.outputs[At(o)].turns.empty(); });
  return known ? graph_.nodes[At(node)].sequence : -1;
}

ir::NodeIndex BackwardPlan::FirstOfTurn(ir::NodeIndex node) const {
  const std::int64_t sequence = graph_.nodes[At(node)].sequence;
  while (sequence >= 0 && node > 0 && graph_.nodes[At(node - 1)].sequence == sequence) --node;
  return node;
}

absl::StatusOr<const BackwardPlan::Variant*> BackwardPlan::FindVariant(const Key& key) const {
  const std::string name = key.Name();
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = variants_.find(name); known != variants_.end()) return known->second.get();
  }
  const bool recorded = IsStreamRecorded();  // not with the lock: it takes the GIL
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Variant>& variant = recorded ? uncompiled_[name] : variants_[name];
  if (variant == nullptr) {
    auto made = CompileVariant(key, recorded ? ExecutableFactory(AtenSequence::Create) : factory_);
    if (!made.ok()) {
      (recorded ? uncompiled_ : variants_).erase(name);
      return made.status();
    }
    variant = *std::move(made);
  }
  return variant.get();
}

absl::StatusOr<BackwardPlan::Reduced> BackwardPlan::Reduce(const Key& key) const {
  const std::string& wanted = key.wanted;
  const std::string& defined = key.defined;
  Reduced result{graph_, {}, {}, {}, {}};
  Graph& whole = result.graph;
  std::vector<CutPoint> places;
  for (const OutputGradient& o : CutBy(key)) {
    places.push_back({o.gradient, whole.inputs[saved_.size() + o.tangent].value});
  }
  FF_RETURN_IF_ERROR(CutAt(whole, places));
  const TangentUse use = places.empty() ? *use_ : TangentUse(whole, saved_.size());
  const std::vector<Node> nodes = whole.nodes;
  use.DropUndefined(whole, defined);
  for (std::size_t g = 0; g < wanted.size(); ++g) {
    ValueId v = whole.outputs[g].value;
    if (wanted[g] != '1' || v == kNoValue || use.IsLeftOut(v, defined)) continue;
    result.roots.push_back(v);
    result.gradients.push_back(static_cast<std::int32_t>(g));
  }
  result.needed = ir::NodesNeededFor(whole, result.roots);
  result.readers = ReadersAmong(nodes, result.needed, use, defined);
  return result;
}

// A node of eager's looks at all that it saved, and uses it all up, whichever of its gradients are wanted.
std::vector<std::int32_t> BackwardPlan::ReadersAmong(const std::vector<Node>& nodes, const std::vector<bool>& needed,
                                                     const TangentUse& use, const std::string& defined) {
  absl::flat_hash_set<std::int64_t> run;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (needed[i] && nodes[i].sequence >= 0 && use.Runs(nodes[i], defined)) run.insert(nodes[i].sequence);
  }
  std::vector<std::int32_t> readers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!needed[i] && !run.contains(nodes[i].sequence)) continue;
    if (use.ReadsSaved(i) && use.Runs(nodes[i], defined)) readers.push_back(static_cast<std::int32_t>(i));
  }
  return readers;
}

absl::StatusOr<std::vector<std::int32_t>> BackwardPlan::ReadersFor(const Key& key) const {
  const std::string name = key.Name();
  const std::lock_guard lock(mutex_);
  if (const auto known = readers_.find(name); known != readers_.end()) return known->second;
  FF_ASSIGN_OR_RETURN(const Reduced reduced, Reduce(key));
  return readers_[name] = reduced.readers;
}

absl::StatusOr<std::unique_ptr<BackwardPlan::Variant>> BackwardPlan::CompileVariant(
    const Key& key, const ExecutableFactory& factory) const {
  FF_ASSIGN_OR_RETURN(Reduced reduced, Reduce(key));
  const Graph& whole = reduced.graph;
  const std::vector<ValueId>& roots = reduced.roots;
  const std::vector<bool>& needed = reduced.needed;
  auto variant = std::make_unique<Variant>();
  variant->gradients = std::move(reduced.gradients);
  variant->readers = std::move(reduced.readers);
  const std::vector<ir::NodeIndex> definitions = whole.Definitions();
  for (ValueId v : roots) variant->made_by.push_back(definitions[At(v)]);
  std::vector<bool> used(whole.values.size(), false);
  for (ValueId v : roots) used[At(v)] = true;
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    if (needed[i]) ir::ForEachUse(whole.nodes[i], [&](ValueId v) { used[At(v)] = true; });
  }
  ir::SubgraphBuilder builder(whole, whole.name);
  for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
    if (!used[At(whole.inputs[i].value)]) continue;
    variant->inputs.push_back(static_cast<std::int32_t>(i));
    builder.AddInput(whole.inputs[i].value, whole.inputs[i]);
  }
  for (std::size_t s = 0; s < saved_.size(); ++s) {
    const auto runs = [&](std::int32_t n) {
      return std::binary_search(variant->readers.begin(), variant->readers.end(), n);
    };
    const std::vector<std::int32_t>& of_value = use_->ReadersOf(s);
    const bool is_read = used[At(whole.inputs[s].value)];
    if (!is_read && std::any_of(of_value.begin(), of_value.end(), runs)) variant->looked_at.push_back(s);
  }
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    if (needed[i]) builder.AddNode(whole.nodes[i]);
  }
  for (std::int32_t g : variant->gradients) builder.AddOutput(whole.outputs[At(g)]);
  Graph graph = builder.Take();
  FF_RETURN_IF_ERROR(ir::Verify(graph));
  BackendOptions options = options_;
  const auto is_saved = [this](std::int32_t i) { return At(i) < saved_.size(); };
  options.first_tangent =
      static_cast<std::int32_t>(std::count_if(variant->inputs.begin(), variant->inputs.end(), is_saved));
  FF_ASSIGN_OR_RETURN(variant->executable, factory(std::move(graph), options));
  return variant;
}

}  // namespace framefuse
