#include "backends/autograd/saved_values.h"

#include <algorithm>

#include "backends/autograd/max_flow.h"
#include "backends/autograd/partition.h"
#include "backends/graph/operators.h"
#include "backends/graph/subgraph.h"
#include "backends/passes/aliases.h"
#include "common/check.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// Costs are bytes moved through memory. On a CPU an exp costs about as much as moving its element a few times.
bool IsTranscendental(const ir::Op& op) { return ir::Has(&op, ir::OpFact::kTranscendental); }

bool IsView(const ir::Op& op) { return ViewedArgument(op) >= 0; }

// The cut: a vertex for each forward node and for each value. On the sink's side a node is run again in the backward
// and a value is there in the backward; a node on the source's side whose value is not must have it saved.
class SaveChooser {
 public:
  SaveChooser(const Graph& g, const BackendOptions& options, absl::Span<const SavedCopy> copies)
      : g_(g), options_(options), aliases_(g), is_copy_(g.values.size(), false) {
    for (const SavedCopy& c : copies) is_copy_[At(c.value)] = true;
    // Where the program wrote through a view, what an input holds then may be a view here, and is the user's memory.
    const std::vector<ir::NodeIndex> definitions = g.Definitions();
    for (const ir::Output& o : g.outputs) {
      if (o.role != ir::OutputRole::kMutatedInput || o.value == kNoValue) continue;
      const ir::NodeIndex i = definitions[At(o.value)];
      if (i != ir::kNoNode && IsView(*g.nodes[At(i)].op)) is_copy_[At(o.value)] = true;
    }
  }

  absl::StatusOr<SavePlan> Run() {
    Classify();
    AddVertices();
    AddEdges();
    std::int64_t cost = flow_.Solve(source_, sink_);
    FF_RET_CHECK(cost < MaxFlow::kInfinite) << "the backward of " << g_.name << " needs a value that cannot be saved";
    return ReadCut();
  }

 private:
  void Classify() {
    std::vector<ValueId> gradients;
    std::vector<ValueId> outputs;
    for (const ir::Output& o : g_.outputs) {
      (o.role == ir::OutputRole::kGradient ? gradients : outputs).push_back(o.value);
    }
    for (ValueId v : gradients) gradient_values_.push_back(v);
    for_gradients_ = ir::NodesNeededFor(g_, gradients);
    for_outputs_ = ir::NodesNeededFor(g_, outputs);
    from_backward_.assign(g_.values.size(), false);
    must_be_backward_.assign(g_.nodes.size(), false);
    is_output_.assign(g_.values.size(), false);
    for (ValueId v : outputs) {
      if (v != kNoValue) is_output_[At(v)] = true;
    }
    for (const ir::Input& in : g_.inputs) from_backward_[At(in.value)] = in.role == ir::InputRole::kTangent;
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      // What was recorded in the backward stays there, also where no tangent is needed: its errors and random numbers.
      bool backward = g_.nodes[i].phase == ir::Phase::kBackward;
      ir::ForEachUse(g_.nodes[i], [&](ValueId v) { backward = backward || from_backward_[At(v)]; });
      must_be_backward_[i] = backward;
      for (ValueId v : g_.nodes[i].outputs) {
        if (v != kNoValue) from_backward_[At(v)] = backward;
      }
    }
    ClassifyMaterialized();
    ClassifyInputMemory();
    ClassifyWritten();
  }

  // Memory that is not the graph's: it may be written between forward and backward in ways that no version counter
  // shows (x.data, an array over it), and what was computed before is what eager has saved.
  void ClassifyInputMemory() {
    is_input_memory_.assign(g_.values.size(), false);
    for (const ir::Input& in : g_.inputs) is_input_memory_[At(in.value)] = in.role != ir::InputRole::kTangent;
    for (const Node& n : g_.nodes) {
      if (!IsView(*n.op)) continue;
      bool of_input = false;
      ir::ForEachValue(n.args[At(ViewedArgument(*n.op))], [&](ValueId v) { of_input = is_input_memory_[At(v)]; });
      for (ValueId v : n.outputs) {
        if (v != kNoValue) is_input_memory_[At(v)] = of_input;
      }
    }
  }

  // What the program gives away, and may write: an optimizer's next step writes its state again. But not logits.
  void ClassifyWritten() {
    may_be_written_.assign(g_.values.size(), false);
    const std::vector<bool> are_logits = FindLogits();
    for (const ir::Output& o : g_.outputs) {
      if (o.value == kNoValue || o.role == ir::OutputRole::kGradient) continue;
      const ValueId root = aliases_.RootOf(o.value);
      const bool written = o.role == ir::OutputRole::kMutatedInput || o.version > 0;
      if (written || options_.results_go_on || !are_logits[At(root)]) may_be_written_[At(root)] = true;
    }
    // Nor is such a result computed again itself: eager's nodes have saved it, and see what was written.
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (!must_be_backward_[i]) continue;
      ir::ForEachUse(g_.nodes[i], [&](ValueId v) {
        if (may_be_written_[At(aliases_.RootOf(v))]) as_it_was_[At(aliases_.RootOf(v))] = true;
      });
    }
  }

  // By root: that of which a softmax is taken, be it widened first. What eager saves of it is as large, and losses are
  // often returned beside it.
  std::vector<bool> FindLogits() const {
    static constexpr ir::OpNames kOfRows{ir::OpName::kAmax, ir::OpName::k_LogSoftmax, ir::OpName::k_Softmax};
    std::vector<bool> are_logits(g_.values.size(), false);
    for (std::size_t i = g_.nodes.size(); i-- > 0;) {
      const Node& n = g_.nodes[i];
      if (n.phase != ir::Phase::kForward || n.args.empty() || n.args[0].kind != ir::Arg::Kind::kValue) continue;
      const bool widened = ir::Is(n.op, ir::OpName::k_ToCopy) && are_logits[At(n.outputs[0])];
      if (widened || kOfRows.contains(n.op)) are_logits[At(aliases_.RootOf(n.args[0].value))] = true;
    }
    return are_logits;
  }

  static bool Fuses(const ir::Op& op) { return op.is_pointwise() || IsView(op); }

  // In memory whatever we choose: results and operands of nodes that no kernel absorbs.
  void ClassifyMaterialized() {
    in_memory_.assign(g_.values.size(), false);
    operand_in_backward_.assign(g_.values.size(), false);
    as_it_was_.assign(g_.values.size(), false);
    // Backwards, so that what is read through views is found too.
    for (std::size_t i = g_.nodes.size(); i-- > 0;) {
      const Node& n = g_.nodes[i];
      if (IsView(*n.op)) {
        ThroughView(n, &in_memory_);
        ThroughView(n, &operand_in_backward_);
        ThroughView(n, &as_it_was_);
      }
      if (ir::Is(n.op, ir::OpName::kEqTensor)) ir::ForEachUse(n, [&](ValueId v) { as_it_was_[At(v)] = true; });
      if (Fuses(*n.op)) continue;
      if (for_outputs_[i]) {
        ir::ForEachUse(n, [&](ValueId v) { in_memory_[At(v)] = true; });
        for (ValueId v : n.outputs) {
          if (v != kNoValue) in_memory_[At(v)] = true;
        }
      }
      if (must_be_backward_[i]) ir::ForEachUse(n, [&](ValueId v) { operand_in_backward_[At(v)] = true; });
    }
  }

  static void ThroughView(const Node& view, std::vector<bool>* property) {
    ir::ForEachValue(view.args[At(ViewedArgument(*view.op))], [&](ValueId base) {
      for (ValueId v : view.outputs) {
        if (v != kNoValue && (*property)[At(v)]) (*property)[At(base)] = true;
      }
    });
  }

  bool IsCopy(const Node& n) const {
    return n.outputs.size() == 1 && n.outputs[0] != kNoValue && is_copy_[At(n.outputs[0])];
  }

  bool IsCandidate(std::size_t node) const {
    return !must_be_backward_[node] && (for_gradients_[node] || for_outputs_[node]);
  }

  void AddVertices() {
    source_ = flow_.AddVertex();
    sink_ = flow_.AddVertex();
    value_vertex_.assign(g_.values.size(), -1);
    node_vertex_.assign(g_.nodes.size(), -1);
    for (const ir::Input& in : g_.inputs) {
      if (in.role != ir::InputRole::kTangent) value_vertex_[At(in.value)] = flow_.AddVertex();
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (!IsCandidate(i)) continue;
      node_vertex_[i] = flow_.AddVertex();
      for (ValueId v : g_.nodes[i].outputs) {
        if (v != kNoValue) value_vertex_[At(v)] = flow_.AddVertex();
      }
    }
  }

  // One more than the bytes, so that fewer values win among equals.
  std::int64_t SaveCost(ValueId v) const {
    std::int64_t bytes = BytesOf(g_, v) + 1;
    return in_memory_[At(v)] || is_output_[At(v)] ? bytes : 2 * bytes;
  }

  // The program copies what it gives away because that will be written; what the backward reads is the copy. A
  // conversion to another type is none: logits that leave the graph are widened again for their loss's backward.
  bool CopiesOutput(const Node& n) const {
    static const ir::OpId clone = ir::RequireOp(ir::OpName::kClone), convert = ir::RequireOp(ir::OpName::k_ToCopy);
    if (n.op != clone && n.op != convert) return false;
    const ValueId from = n.args[0].value;
    return g_.value(from).dtype == g_.value(n.outputs[0]).dtype && aliases_.Escapes(from);
  }

  std::int64_t RecomputeCost(std::size_t node) const {
    const Node& n = g_.nodes[node];
    if (n.op->is_random() || n.op->has_side_effect() || IsCopy(n)) return MaxFlow::kInfinite;
    if (IsView(*n.op)) return 0;
    bool reads_input = false;
    ir::ForEachUse(n, [&](ValueId v) {
      reads_input = reads_input || is_input_memory_[At(v)] || may_be_written_[At(aliases_.RootOf(v))];
    });
    if (reads_input || CopiesOutput(n)) return MaxFlow::kInfinite;
    if (!for_outputs_[node]) return 0;  // only the backward wants it: no repetition
    // A second run may round in another way, and then a maximum's backward does not find it among its operands.
    for (ValueId v : n.outputs) {
      if (v != kNoValue && as_it_was_[At(v)]) return MaxFlow::kInfinite;
    }
    if (options_.save_all || !n.op->is_pointwise()) return MaxFlow::kInfinite;
    std::int64_t cost = 0;
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      std::int64_t bytes = BytesOf(g_, v);
      bool slow = IsTranscendental(*n.op) && g_.value(v).device.is_cpu();
      cost += slow ? 2 * bytes : bytes / 8;
      if (operand_in_backward_[At(v)]) cost += bytes;  // must be written for its consumer
    }
    return cost + 1;
  }

  void AddEdges() {
    for (const ir::Input& in : g_.inputs) {
      if (in.role == ir::InputRole::kTangent) continue;
      // The old value of a mutated input is gone when the backward runs.
      flow_.AddEdge(source_, value_vertex_[At(in.value)], in.mutated ? MaxFlow::kInfinite : BytesOf(g_, in.value) + 1);
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (must_be_backward_[i] && for_gradients_[i]) {
        ir::ForEachUse(n, [&](ValueId v) { Need(v); });
      }
      if (node_vertex_[i] < 0) continue;
      flow_.AddEdge(source_, node_vertex_[i], RecomputeCost(i));
      ir::ForEachUse(n, [&](ValueId v) {
        if (value_vertex_[At(v)] >= 0) flow_.AddEdge(value_vertex_[At(v)], node_vertex_[i], MaxFlow::kInfinite);
      });
      for (ValueId v : n.outputs) {
        // Views are rebuilt from their base: a saved view would hide the base's version counter.
        if (v != kNoValue)
          flow_.AddEdge(node_vertex_[i], value_vertex_[At(v)],
                        IsView(*n.op) && !IsCopy(n) ? MaxFlow::kInfinite : SaveCost(v));
      }
    }
    for (ValueId v : gradient_values_) {
      if (v != kNoValue && !from_backward_[At(v)]) Need(v);
    }
  }

  void Need(ValueId v) {
    if (value_vertex_[At(v)] >= 0) flow_.AddEdge(value_vertex_[At(v)], sink_, MaxFlow::kInfinite);
  }

  SavePlan ReadCut() const {
    std::vector<bool> sink_side = flow_.SinkSide(sink_);
    SavePlan plan;
    plan.in_backward.assign(g_.nodes.size(), false);
    auto available = [&](ValueId v) { return value_vertex_[At(v)] >= 0 && sink_side[At(value_vertex_[At(v)])]; };
    for (const ir::Input& in : g_.inputs) {
      if (in.role != ir::InputRole::kTangent && available(in.value)) plan.saved.push_back(in.value);
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (must_be_backward_[i]) plan.in_backward[i] = for_gradients_[i];
      if (node_vertex_[i] < 0) continue;
      bool again = sink_side[At(node_vertex_[i])];
      plan.in_backward[i] = again;
      if (again) continue;
      for (ValueId v : g_.nodes[i].outputs) {
        if (v != kNoValue && available(v)) plan.saved.push_back(v);
      }
    }
    return plan;
  }

  const Graph& g_;
  const BackendOptions& options_;
  const Aliases aliases_;
  std::vector<bool> is_copy_;  // by value
  std::vector<ValueId> gradient_values_;
  std::vector<bool> for_gradients_;        // by node
  std::vector<bool> for_outputs_;          // by node
  std::vector<bool> must_be_backward_;     // by node
  std::vector<bool> from_backward_;        // by value
  std::vector<bool> is_output_;            // by value
  std::vector<bool> in_memory_;            // by value
  std::vector<bool> operand_in_backward_;  // by value
  std::vector<bool> as_it_was_;            // by value: compared for equality, or a result
  std::vector<bool> is_input_memory_;      // by value
  std::vector<bool> may_be_written_;       // by root
  std::vector<MaxFlow::Vertex> value_vertex_;
  std::vector<MaxFlow::Vertex> node_vertex_;
  MaxFlow::Vertex source_ = 0;
  MaxFlow::Vertex sink_ = 0;
  MaxFlow flow_;
};

}  // namespace

absl::StatusOr<SavePlan> ChooseSaved(const Graph& joint, const BackendOptions& options,
                                     absl::Span<const SavedCopy> copies) {
  return SaveChooser(joint, options, copies).Run();
}

}  // namespace framefuse
