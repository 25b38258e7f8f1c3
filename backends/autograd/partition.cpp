#include "backends/autograd/partition.h"

#include <algorithm>
#include <utility>

#include "backends/autograd/saved_copies.h"
#include "backends/autograd/saved_values.h"
#include "backends/autograd/values_of_written.h"
#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"
#include "common/check.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::Output;
using ir::ValueId;

class Partitioner {
 public:
  Partitioner(Graph joint, const BackendOptions& options) : g_(std::move(joint)), options_(options) {}

  absl::StatusOr<Partitioned> Run() {
    FF_RET_CHECK(g_.functional) << "partition wants a functional graph";
    WrittenInputs written(g_);
    written.CopyWhatBackwardReads();
    copies_ = MakeSavedCopies(g_);
    CollectRoots();
    FF_ASSIGN_OR_RETURN(SavePlan plan, ChooseSaved(g_, options_, copies_));
    if (written.CopyForSecondDerivatives(plan.saved)) {
      FF_ASSIGN_OR_RETURN(plan, ChooseSaved(g_, options_, copies_));
    }
    for (ValueId v : written.NeededBesides(plan.saved)) plan.saved.push_back(v);
    BuildForward(plan);
    for (SavedValue& s : result_.saved) written.Mark(&s);
    BuildBackward(plan);
    FF_RETURN_IF_ERROR(Annotate(ir::Verify(result_.forward), "forward graph"));
    FF_RETURN_IF_ERROR(Annotate(ir::Verify(result_.backward), "backward graph"));
    result_.joint = std::move(g_);
    return std::move(result_);
  }

 private:
  void CollectRoots() {
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      bool gradient = g_.outputs[i].role == ir::OutputRole::kGradient;
      if (gradient) {
        result_.gradients.push_back(static_cast<std::int32_t>(i));
        result_.forward_output.push_back(-1);
      } else {
        result_.forward_output.push_back(static_cast<std::int32_t>(forward_roots_.size()));
        forward_roots_.push_back(g_.outputs[i].value);
      }
    }
  }

  // A saved value that is an output already is not returned twice.
  std::int32_t ForwardOutputOf(ValueId v) const {
    for (std::size_t i = 0; i < forward_roots_.size(); ++i) {
      if (forward_roots_[i] == v) return static_cast<std::int32_t>(i);
    }
    return -1;
  }

  void BuildForward(const SavePlan& plan) {
    std::vector<std::int32_t> input_of(g_.values.size(), -1);
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) input_of[At(g_.inputs[i].value)] = static_cast<std::int32_t>(i);
    std::vector<ValueId> roots = forward_roots_;
    for (ValueId v : plan.saved) {
      SavedValue s;
      s.value = v;
      const auto copy = std::find_if(copies_.begin(), copies_.end(), [v](const SavedCopy& c) { return c.value == v; });
      if (copy != copies_.end()) {
        s.is_copy = true;
        s.counts_with = copy->counts_with < 0 ? -1 : result_.forward_output[At(copy->counts_with)];
        v = copy->of;
      }
      s.is_input = input_of[At(v)] >= 0;
      s.index = s.is_input ? input_of[At(v)] : ForwardOutputOf(v);
      if (s.index < 0) {
        s.index = static_cast<std::int32_t>(roots.size());
        roots.push_back(v);
        result_.saved_bytes += BytesOf(g_, v);
      }
      result_.saved.push_back(s);
    }
    const std::vector<bool> needed = NeededInForward(roots);
    ir::SubgraphBuilder builder(g_, g_.name + ".forward");
    for (const ir::Input& in : g_.inputs) {
      if (in.role != ir::InputRole::kTangent) builder.AddInput(in.value, ForwardInput(in));
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (!needed[i]) continue;
      Node forward = n;
      forward.phase = ir::Phase::kForward;  // backward's own preparations may run early
      builder.AddNode(forward);
    }
    for (const Output& o : g_.outputs) {
      if (o.role == ir::OutputRole::kGradient) continue;
      Output copy = o;
      bool of_output = o.alias == ir::OutputAlias::kViewOfOutput || o.alias == ir::OutputAlias::kOutput;
      if (of_output) copy.alias_of = result_.forward_output[At(o.alias_of)];
      builder.AddOutput(copy);
    }
    for (std::size_t i = forward_roots_.size(); i < roots.size(); ++i) {
      Output saved;
      saved.value = roots[i];
      saved.role = ir::OutputRole::kHidden;
      builder.AddOutput(saved);
    }
    result_.forward = builder.Take();
    result_.forward.deferred = g_.deferred;
  }

  // What leads to these values, and what moves a generator or is done for its effect, with all that it reads.
  std::vector<bool> NeededInForward(std::vector<ValueId> values) const {
    std::vector<bool> own(g_.nodes.size(), false);
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      own[i] = (n.op->is_random() || n.op->has_side_effect()) && n.phase != ir::Phase::kBackward;
      if (own[i]) ir::ForEachUse(n, [&](ValueId v) { values.push_back(v); });
    }
    std::vector<bool> needed = ir::NodesNeededFor(g_, values);
    for (std::size_t i = 0; i < own.size(); ++i) needed[i] = needed[i] || own[i];
    return needed;
  }

  ir::Input ForwardInput(const ir::Input& in) const {
    ir::Input copy = in;
    if (in.mutated_output >= 0) copy.mutated_output = result_.forward_output[At(in.mutated_output)];
    return copy;
  }

  void BuildBackward(const SavePlan& plan) {
    ir::SubgraphBuilder builder(g_, g_.name + ".backward");
    for (const SavedValue& s : result_.saved) builder.AddInput(s.value, ir::Input());
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
      if (g_.inputs[i].role != ir::InputRole::kTangent) continue;
      result_.tangents.push_back(static_cast<std::int32_t>(i));
      ir::Input facts;
      facts.name = "tangent";
      builder.AddInput(g_.inputs[i].value, facts);
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (!plan.in_backward[i]) continue;
      result_.recomputed_nodes += g_.nodes[i].phase == ir::Phase::kForward ? 1 : 0;
      Node n = g_.nodes[i];
      n.phase = ir::Phase::kForward;  // the backward graph is a graph of one phase
      builder.AddNode(n);
    }
    for (std::int32_t o : result_.gradients) {
      Output gradient = g_.outputs[At(o)];
      gradient.role = ir::OutputRole::kUser;
      gradient.input = -1;
      gradient.of_output = -1;
      gradient.turns.clear();
      builder.AddOutput(gradient);
    }
    result_.backward = builder.Take();
  }

  Graph g_;
  const BackendOptions& options_;
  std::vector<SavedCopy> copies_;
  std::vector<ValueId> forward_roots_;
  Partitioned result_;
};

}  // namespace

std::int64_t BytesOf(const Graph& graph, ValueId value) {
  const ir::Value& v = graph.value(value);
  if (v.kind != ir::ValueKind::kTensor) return 8;
  std::int64_t elements = 1;
  for (const ir::Dim& d : v.sizes) elements *= graph.exprs.Hint(d);
  return elements * static_cast<std::int64_t>(c10::elementSize(v.dtype));
}

absl::StatusOr<Partitioned> Partition(Graph joint, const BackendOptions& options) {
  return Partitioner(std::move(joint), options).Run();
}

CapturedReads ReadsOf(const ir::Graph& captured) { return {ir::ReadsOfInputs(captured), ir::SavedByOthers(captured)}; }

void AddReads(const CapturedReads& reads, Partitioned* parts) {
  for (SavedValue& s : parts->saved) {
    if (s.IsInputItself()) {
      s.reads = reads.of_inputs[At(s.index)];
      s.saved_by = s.reads.itself_by;
    }
    if (s.is_input || s.is_copy || (s.of_written >= 0 && !s.is_new)) continue;
    const std::vector<std::int32_t>& outputs = parts->forward_output;
    const auto o = static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), s.index) - outputs.begin());
    if (o < reads.of_outputs.size()) s.saved_by = reads.of_outputs[o];
  }
}

}  // namespace framefuse
