// The second pass of a BackwardRun: one with create_graph, which leaves a history of its own.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "backends/autograd/backward_run.h"
#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/differentiable_plans.h"
#include "backends/autograd/output_gate.h"
#include "backends/autograd/pass_under_way.h"
#include "backends/runtime/differentiable_ops.h"
#include "backends/runtime/torch_error.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace autograd = torch::autograd;

// `node`: the one of the run's that computes.
class BackwardRun::SecondPass {
 public:
  SecondPass(BackwardRun& run, autograd::Node& node) : run_(run), plan_(*run.plan_), node_(node) {}

  autograd::variable_list Run(autograd::variable_list tangents, const BackwardPlan::Key& key, Used* used);

 private:
  // Results to whose nodes a second derivative comes, for somebody sees it there or they are `saved` (one character for
  // each of BackwardPlan::results): so too, and the edges to them.
  struct ResultsPassed {
    std::string results;
    autograd::edge_list edges;
  };
  ResultsPassed FindResultsPassed(const std::string& saved);
  std::vector<at::Tensor> InputsOf(const DifferentiablePlan& plan, const autograd::variable_list& tangents);
  at::Tensor InputOf(std::int32_t input);
  // Whether the elements of an input, or of what a graph wrote to one, are gone.
  bool IsAnyStale();
  bool IsGone(std::size_t saved);
  static bool IsNewer(const UnsavedInput& input) {
    return input.memory.defined() && !input.memory.is_inference() && input.memory._version() != input.version;
  }
  // The history that it had when the graph ran.
  autograd::Edge EdgeTo(std::int32_t input);
  // In the place of one whose elements are gone, and are of no account.
  at::Tensor InPlaceOf(ir::ValueId value) const;
  bool IsRead(std::size_t saved) const;  // by a node that this pass comes to
  // A saved value with its history.
  at::Tensor StartOf(std::size_t saved);
  void SetHistoryOfWritten(const SavedValue& s, at::Tensor* t) const;
  // What `input` is written with comes from there.
  autograd::Edge EdgeToWriter(std::int32_t input) const;
  static bool IsInPass(const autograd::GraphTask& task, autograd::Node* node);
  // What an input held before the graph wrote it uncounted: eager's nodes have saved the input itself, and a second
  // derivative that comes to them reads what it holds now.
  void StartInItsPlace(const UnsavedInput& input, bool is_read, at::Tensor* t);
  // What forward nodes have read of `x.data` gets what x holds now, whose versions they do not ask for.
  void ReadByData(const DifferentiablePlan& plan, std::vector<at::Tensor>* outputs) const;
  // What was saved, for a value that is computed again; undefined where that was used up or written since.
  at::Tensor ElementsOf(std::size_t saved);

  BackwardRun& run_;
  const BackwardPlan& plan_;
  autograd::Node& node_;
  std::vector<std::int32_t> readers_;  // nodes of the backward that this pass comes to
  struct InPlace {
    at::Tensor start;
    const UnsavedInput* input = nullptr;
  };
  std::vector<InPlace> in_place_;  // get the input's elements when all has run
  std::vector<at::Tensor> stale_;  // what InPlaceOf() gave
};

bool BackwardRun::SecondPass::IsRead(std::size_t saved) const {
  const std::vector<std::int32_t>& of_value = plan_.use().ReadersOf(saved);
  return std::any_of(of_value.begin(), of_value.end(),
                     [&](std::int32_t n) { return std::binary_search(readers_.begin(), readers_.end(), n); });
}

// The pass comes to what an input was written with from that node, or from what was computed with it.
void BackwardRun::SecondPass::SetHistoryOfWritten(const SavedValue& s, at::Tensor* t) const {
  for (const SeenWrites::Write& w : run_.seen_writes_.all()) {
    if (w.input != s.of_written) continue;
    auto seen = w.node.lock();
    *t = t->detach();
    // A view that was written has its node as long as somebody has the view. Eager's node that has saved it leads to
    // itself then.
    autograd::Edge edge = seen ? autograd::Edge(std::move(seen), w.input_nr) : EdgeToWriter(w.input);
    if (edge.is_valid()) autograd::impl::set_gradient_edge(*t, std::move(edge));
  }
}

autograd::Edge BackwardRun::SecondPass::EdgeToWriter(std::int32_t input) const {
  const ir::Graph& joint = plan_.joint();
  const auto writes = [&](std::size_t tangent) {
    const ir::Output& o = joint.outputs[At(joint.inputs[At(plan_.tangents()[tangent])].tangent_of)];
    return o.role == ir::OutputRole::kMutatedInput && o.input == input;
  };
  if (!run_.HasGates()) return writes(0) ? autograd::Edge(node_.getptr(), /*input_nr=*/0) : autograd::Edge();
  autograd::GraphTask* const task = PassUnderWay();
  if (task == nullptr) return {};
  const std::lock_guard lock(run_.mutex_);
  const std::lock_guard task_lock(task->mutex_);
  for (const Place& place : run_.places_) {
    const bool is_there = place.gate != nullptr && IsInPass(*task, place.gate);
    if (is_there && writes(place.gate->tangent())) return {place.gate->getptr(), /*input_nr=*/0};
  }
  return {};
}

// One that the pass does not come to may be dying meanwhile. The only root is no node that another leads to.
bool BackwardRun::SecondPass::IsInPass(const autograd::GraphTask& task, autograd::Node* node) {
  const auto& roots = task.graph_roots_;
  return task.nodes_in_graph_.contains(node) || std::find(roots.begin(), roots.end(), node) != roots.end();
}

at::Tensor BackwardRun::SecondPass::StartOf(std::size_t saved) {
  const SavedValue& s = plan_.saved()[saved];
  at::Tensor t;
  try {
    t = run_.saved_.Unpack(saved, run_.NodeFor(saved, node_));
  } catch (const c10::Error&) {
    if (IsRead(saved)) throw;
    t = InPlaceOf(s.value);
    // A write without gradients leaves the history as it is.
    const bool as_it_was =
        s.of_written >= 0 && (!s.is_new || plan_.joint().inputs[At(s.of_written)].mutated_without_grad);
    if (autograd::Edge edge = as_it_was ? EdgeTo(s.of_written) : autograd::Edge(); edge.is_valid())
      autograd::impl::set_gradient_edge(t, std::move(edge));
    if (s.is_new) SetHistoryOfWritten(s, &t);
    stale_.push_back(t);
    return t;
  }
  if (s.is_new) SetHistoryOfWritten(s, &t);
  for (const WrittenUncounted& w : run_.written_uncounted_) {
    if (w.saved == saved) StartInItsPlace(w.input, IsRead(saved), &t);
  }
  return t;
}

void BackwardRun::SecondPass::StartInItsPlace(const UnsavedInput& input, bool is_read, at::Tensor* t) {
  if (IsNewer(input)) {  // the nodes that have saved it raise
    stale_.push_back(*t);
    return;
  }
  // What the backward computes again of the old elements needs them while it runs.
  at::Tensor start = is_read ? t->detach().clone() : input.memory.detach();
  if (t->grad_fn()) autograd::impl::set_gradient_edge(start, autograd::impl::gradient_edge(*t));
  const bool counts = !start.is_inference() && !input.memory.is_inference();
  if (is_read && counts) autograd::impl::set_version_counter(start, autograd::impl::version_counter(input.memory));
  *t = std::move(start);
  if (is_read) in_place_.push_back({*t, &input});
}

void BackwardRun::SecondPass::ReadByData(const DifferentiablePlan& plan, std::vector<at::Tensor>* outputs) const {
  TORCH_CHECK(plan.read_by_data.empty() || !run_.read_by_data_.empty(), autograd::ERR_BACKWARD_TWICE);
  for (std::size_t i = 0; i < plan.read_by_data.size(); ++i) {
    const at::Tensor& memory = run_.read_by_data_[plan.read_by_data[i]];
    (*outputs)[plan.gradients.size() + i].variable_data().copy_(memory.variable_data());
  }
  outputs->resize(plan.gradients.size());
}

autograd::Edge BackwardRun::SecondPass::EdgeTo(std::int32_t input) {
  const std::vector<BackwardPlan::InputClass>& classes = plan_.input_classes();
  for (std::size_t c = 0; c < classes.size(); ++c) {
    for (std::size_t k = 0; k < classes[c].gradients.size(); ++k) {
      const std::int32_t output = plan_.gradients()[At(classes[c].gradients[k])];
      if (plan_.joint().outputs[At(output)].input != input) continue;
      if (!run_.HasGates()) return node_.next_edge(k);
      const std::lock_guard lock(run_.mutex_);
      const bool is_there = c < run_.nodes_.size() && run_.nodes_[c] != nullptr;
      return is_there ? run_.nodes_[c]->next_edge(k) : autograd::Edge();
    }
  }
  return {};
}

at::Tensor BackwardRun::SecondPass::InPlaceOf(ir::ValueId value) const {
  const ir::Graph& joint = plan_.joint();
  const ir::Value& recorded = joint.value(value);
  std::vector<std::int64_t> sizes, strides;
  for (const ir::Dim& d : recorded.sizes) sizes.push_back(joint.exprs.Evaluate(d, run_.symbols_));
  for (const ir::Dim& d : recorded.strides) strides.push_back(joint.exprs.Evaluate(d, run_.symbols_));
  const auto options = at::TensorOptions().dtype(recorded.dtype).device(recorded.device);
  return at::empty_strided(sizes, strides, options).zero_();
}

bool BackwardRun::SecondPass::IsAnyStale() {
  if (std::any_of(run_.inputs_.begin(), run_.inputs_.end(), &IsNewer)) return true;
  for (const WrittenUncounted& w : run_.written_uncounted_) {
    if (IsNewer(w.input)) return true;
  }
  for (std::size_t s = 0; s < run_.saved_.size(); ++s) {
    if ((plan_.saved()[s].IsInputItself() || plan_.saved()[s].of_written >= 0) && IsGone(s)) return true;
  }
  return false;
}

bool BackwardRun::SecondPass::IsGone(std::size_t saved) {
  try {
    run_.saved_.Unpack(saved, run_.NodeFor(saved, node_));
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}

at::Tensor BackwardRun::SecondPass::InputOf(std::int32_t input) {
  at::Tensor t;
  const std::vector<std::int32_t>& extra = plan_.differentiable().inputs();
  const auto found = std::find(extra.begin(), extra.end(), input);
  if (found != extra.end()) {
    TORCH_CHECK(!run_.inputs_.empty(), autograd::ERR_BACKWARD_TWICE);
    const UnsavedInput& unsaved = run_.inputs_[At(found - extra.begin())];
    if (!unsaved.memory.defined()) return {};
    if (!IsNewer(unsaved)) t = unsaved.memory.detach();
  }
  for (std::size_t s = 0; s < run_.saved_.size() && found == extra.end(); ++s) {
    if (!plan_.saved()[s].IsInputItself() || plan_.saved()[s].index != input) continue;
    try {
      t = run_.Unpack(s, node_);
      const autograd::Edge edge = EdgeTo(input);
      const bool detached_since = !t.grad_fn() && edge.is_valid() && !IsLeaf(edge.function.get());
      if (!detached_since) return t;
      t = t.detach();  // no node that this pass comes to has saved it itself
      autograd::impl::set_gradient_edge(t, edge);
      return t;
    } catch (const c10::Error&) {  // no node that this pass comes to has saved it
      break;
    }
  }
  if (!t.defined()) {
    t = InPlaceOf(plan_.joint().inputs[At(input)].value);
    stale_.push_back(t);
  }
  if (autograd::Edge edge = EdgeTo(input); edge.is_valid()) autograd::impl::set_gradient_edge(t, std::move(edge));
  return t;
}

at::Tensor BackwardRun::SecondPass::ElementsOf(std::size_t saved) {
  try {
    return run_.saved_.Unpack(saved, node_.getptr());
  } catch (const c10::Error&) {  // no node that this pass comes to has saved it
    return {};
  }
}

BackwardRun::SecondPass::ResultsPassed BackwardRun::SecondPass::FindResultsPassed(const std::string& saved) {
  ResultsPassed found{std::string(plan_.results().size(), '0'), {}};
  found.edges.resize(found.results.size());
  const auto add = [&found](std::size_t result, autograd::Node& n, std::uint32_t input_nr) {
    found.results[result] = '1';
    found.edges[result] = autograd::Edge(n.getptr(), input_nr);
  };
  // Also where this pass does not come to it: the write's own node has saved the view.
  for (const SeenView& view : run_.seen_views_) {
    const auto node = view.node.lock();
    if (node && (saved[view.result] == '1' || OutputGate::IsSeen(*node))) add(view.result, *node, view.input_nr);
  }
  if (!run_.HasGates()) {
    if (saved[0] == '1' || OutputGate::IsSeen(node_)) add(0, node_, 0);
    return found;
  }
  autograd::GraphTask* const task = PassUnderWay();
  if (task == nullptr) return found;
  const std::lock_guard lock(run_.mutex_);
  const std::lock_guard task_lock(task->mutex_);
  for (const Place& place : run_.places_) {
    if (place.node == nullptr || place.tangent < 0 || !IsInPass(*task, place.node)) continue;
    const std::size_t tangent = At(place.tangent);
    if (saved[tangent] == '1' || OutputGate::IsSeen(*place.node)) add(tangent, *place.node, place.input_nr);
  }
  return found;
}

std::vector<at::Tensor> BackwardRun::SecondPass::InputsOf(const DifferentiablePlan& plan,
                                                          const autograd::variable_list& tangents) {
  std::vector<at::Tensor> inputs;
  for (std::int32_t i : plan.inputs) {
    const auto tangent = std::find(plan_.tangents().begin(), plan_.tangents().end(), i);
    if (tangent == plan_.tangents().end()) {
      inputs.push_back(InputOf(i));
    } else {
      const auto t = static_cast<std::size_t>(tangent - plan_.tangents().begin());
      inputs.push_back(run_.PrepareTangent(t, tangents[t]));
    }
  }
  for (std::int32_t s : plan.saved) inputs.push_back(StartOf(At(s)));
  for (std::int32_t s : plan.elements) inputs.push_back(ElementsOf(At(s)));
  return inputs;
}

autograd::variable_list BackwardRun::SecondPass::Run(autograd::variable_list tangents, const BackwardPlan::Key& key,
                                                     Used* used) {
  // As in eager: what was computed with a result leads to its node, where hooks see a second derivative.
  readers_ = used->readers = ValueOrThrow(plan_.ReadersFor(key));
  const DifferentiablePlans& plans = plan_.differentiable();
  const ResultsPassed passed = FindResultsPassed(plans.ResultsPassed(used->readers));
  const std::string detached = run_.detached_.Detached(plan_.saved().size());
  const DifferentiablePlan* plan = ValueOrThrow(plans.Find(key, {passed.results, IsAnyStale(), detached}));
  std::vector<at::Tensor> inputs = InputsOf(*plan, tangents);
  UnknownValues unknown(stale_);
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (plan->of_results != nullptr) {
    const at::AutoGradMode no_history(false);
    std::vector<at::Tensor> results(plan->results.size());
    const std::vector<at::Tensor> given = InputsOf(*plan->of_results, tangents);
    ThrowIfError(plan->of_results->executable->Run(given, run_.symbols_, absl::MakeSpan(results)));
    for (std::size_t r = 0; r < results.size(); ++r) {
      inputs.push_back(results[r].detach());
      autograd::impl::set_gradient_edge(inputs.back(), passed.edges[plan->results[r]]);
    }
  }
  std::vector<at::Tensor> outputs(plan->gradients.size() + plan->read_by_data.size());
  ThrowIfError(plan->executable->Run(inputs, run_.symbols_, absl::MakeSpan(outputs)));
  ReadByData(*plan, &outputs);
  for (const InPlace& p : in_place_) p.start.variable_data().copy_(p.input->memory.variable_data());
  // A node that has saved one of these is none that this pass came to: eager's error, if a next one does.
  unknown.Spoil();
  autograd::variable_list result(plan_.gradients().size());
  for (std::size_t i = 0; i < outputs.size(); ++i) result[At(plan->gradients[i])] = std::move(outputs[i]);
  return result;
}

autograd::variable_list BackwardRun::RunDifferentiable(autograd::variable_list tangents, const BackwardPlan::Key& key,
                                                       const GradientTargets& targets, Used* used) {
  return SecondPass(*this, targets.node).Run(std::move(tangents), key, used);
}

}  // namespace framefuse
