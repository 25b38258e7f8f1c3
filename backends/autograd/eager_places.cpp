// BackwardRun, second part: what eager has done when a pass fails, or when it comes to an output that somebody looks
// at.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "backends/autograd/backward_run.h"
#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/leaf_order.h"
#include "backends/autograd/output_gate.h"
#include "backends/autograd/own_memory.h"
#include "backends/autograd/pass_under_way.h"
#include "backends/runtime/torch_error.h"
#include "common/index.h"
#include "common/own_hook.h"
#include "common/status.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

std::exception_ptr UsedUp() {
  try {
    TORCH_CHECK(false, autograd::ERR_BACKWARD_TWICE);
  } catch (...) {
    return std::current_exception();
  }
}

// By edge: whether what it leads to waits for nodes besides these.
std::vector<bool> WaitForOthers(absl::Span<const autograd::Edge> edges, absl::Span<CompiledBackward* const> nodes) {
  std::unordered_map<const autograd::Node*, int> ours;  // edges
  for (const CompiledBackward* node : nodes) {
    for (const autograd::Edge& e : node->next_edges()) {
      if (e.is_valid()) ++ours[e.function.get()];
    }
  }
  std::vector<bool> wait;
  autograd::GraphTask& task = *PassUnderWay();
  const std::lock_guard task_lock(task.mutex_);
  for (const autograd::Edge& e : edges) {
    const auto left = task.dependencies_.find(e.function.get());
    wait.push_back(e.is_valid() && left != task.dependencies_.end() && left->second > ours[e.function.get()]);
  }
  return wait;
}

// Whether hooks see when a pass comes to the leaf behind a view's node, through views alone.
bool LeadsToSeenLeaf(autograd::Node& view) {
  for (autograd::Node* n = &view; n != nullptr && n->num_outputs() == 1; n = n->next_edge(0).function.get()) {
    if (AnyLeafHasHooks({*n, n->next_edges()})) return true;
  }
  return false;
}

bool IsEmpty(const std::string& wanted) { return wanted.find('1') == std::string::npos; }

}  // namespace

void BackwardRun::UseUp(const std::vector<std::int32_t>& readers, absl::FunctionRef<bool(ir::NodeIndex)> has_run) {
  const autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr || pass->keep_graph_) return;
  const int id = autograd::get_current_graph_task_id();
  const std::lock_guard lock(mutex_);
  released_in_.resize(plan_->graph().nodes.size(), kNever);
  for (std::int32_t n : readers) {
    if (released_in_[At(n)] == kNever && has_run(n)) released_in_[At(n)] = id;
  }
}

void BackwardRun::ActBefore(ir::NodeIndex node, const BackwardPlan::Variant* variant,
                            const std::vector<std::int32_t>& readers, autograd::variable_list tangents,
                            const BackwardPlan::Key& key, const GradientTargets& targets,
                            std::unique_lock<std::mutex>* lock) {
  BackwardPlan::Key early = key;
  early.wanted.assign(key.wanted.size(), '0');
  const std::int64_t fails = plan_->TurnOfNode(node);
  for (std::size_t g = 0; g < plan_->input_gradients(); ++g) {
    const std::int32_t turn = plan_->TurnOf(g, key.defined);
    if (key.wanted[g] == '1' && turn >= 0 && turn < fails) early.wanted[g] = '1';
  }
  for (std::size_t i = 0; variant != nullptr && fails < 0 && i < variant->gradients.size(); ++i) {
    const std::size_t g = At(variant->gradients[i]);
    if (g < plan_->input_gradients() && variant->made_by[i] < node) early.wanted[g] = '1';
  }
  Accumulate(early, readers, std::move(tangents), targets, lock);
  UseUp(readers, [node](ir::NodeIndex n) { return n < node; });
}

BackwardRun::Accumulated BackwardRun::Accumulate(const BackwardPlan::Key& early,
                                                 const std::vector<std::int32_t>& readers,
                                                 autograd::variable_list tangents, const GradientTargets& targets,
                                                 std::unique_lock<std::mutex>* lock) {
  Accumulated result{std::string(early.wanted.size(), '0'), {}};
  if (IsEmpty(early.wanted)) return result;
  autograd::variable_list& gradients = result.left;
  if (at::GradMode::is_enabled()) {
    Used used;
    gradients = RunDifferentiable(std::move(tangents), early, targets, &used);
    gradients.resize(plan_->input_gradients());
  } else {
    const BackwardPlan::Variant& before = *ValueOrThrow(plan_->FindVariant(early));
    if (FirstUsedUp(before.readers) != ir::kNoNode) return result;
    Unpacked unpacked = UnpackFor(before, targets);
    if (unpacked.error != nullptr) std::rethrow_exception(unpacked.error);
    gradients = Execute(before, std::move(unpacked.saved), std::move(tangents), targets);
    gradients.resize(plan_->input_gradients());
    OwnMemoryOfLeaves(targets.edges, gradients);
  }
  lock->unlock();  // hooks of leaves may come here again
  std::size_t last = 0;
  try {
    AccumulateNow(targets, gradients, Turns(early.defined), [&](std::size_t g) { result.handed[last = g] = '1'; });
  } catch (...) {
    const std::int32_t turn = plan_->TurnOf(last, early.defined);
    UseUp(readers, [&](ir::NodeIndex n) { return plan_->TurnOfNode(n) < turn; });
    throw;
  }
  return result;
}

std::size_t BackwardRun::Add(OutputGate& gate) {
  const std::lock_guard lock(mutex_);
  const auto tangent = static_cast<std::int32_t>(gate.tangent());
  places_.push_back({&gate, &gate, plan_->TurnOfOutput(gate.tangent()), tangent});
  return places_.size() - 1;
}

void BackwardRun::RemoveGate(std::size_t place) {
  const std::lock_guard lock(mutex_);
  places_[place] = {};
}

// What a gate does when it has run, for a node of torch's own.
class BackwardRun::ViewHook final : public autograd::FunctionPostHook, public OwnHook {
 public:
  ViewHook(std::shared_ptr<BackwardRun> run, autograd::Node& node, std::size_t place)
      : run_(std::move(run)), node_(node), place_(place) {}
  ~ViewHook() override { run_->RemoveGate(place_); }

  autograd::variable_list operator()(const autograd::variable_list& outputs, const autograd::variable_list&) override {
    if (PassUnderWay() != nullptr) run_->ActBeforeNextSeen(node_, place_, /*fails=*/false);
    return outputs;
  }

 private:
  std::shared_ptr<BackwardRun> run_;
  autograd::Node& node_;  // whose hook this is
  std::size_t place_;
};

void BackwardRun::AddView(const autograd::Edge& edge, std::int32_t turn, std::int32_t tangent) {
  has_hidden_view_ = has_hidden_view_ || !edge.is_valid();
  if (!IsJoint() || !edge.is_valid()) return;
  std::size_t place = 0;
  {
    const std::lock_guard lock(mutex_);
    // Views out of one list have one node.
    const bool is_last = !places_.empty() && places_.back().node == edge.function.get() && places_.back().turn == turn;
    if (is_last) return;
    place = places_.size();
    places_.push_back({edge.function.get(), nullptr, turn, tangent, edge.input_nr});
  }
  edge.function->add_post_hook(std::make_unique<ViewHook>(shared_from_this(), *edge.function, place));
}

std::vector<BackwardRun::Place> BackwardRun::PlacesAfter(const Pass& pass, std::size_t place, bool all) {
  std::vector<Place> places;
  autograd::GraphTask& task = *PassUnderWay();
  const std::lock_guard lock(mutex_);
  const std::lock_guard task_lock(task.mutex_);
  for (std::size_t p = place; p-- > 0 && (all || places.empty());) {
    // One that the pass does not come to may be dying meanwhile.
    autograd::Node* const node = places_[p].node;
    if (node == nullptr || pass.passed[p] || !task.nodes_in_graph_.contains(node) || !IsRun(task, node)) continue;
    places.push_back(places_[p]);
  }
  return places;
}

std::vector<CompiledBackward*> BackwardRun::NodesOfPass() {
  std::vector<CompiledBackward*> nodes;
  autograd::GraphTask& task = *PassUnderWay();
  const std::lock_guard lock(mutex_);
  const std::lock_guard task_lock(task.mutex_);
  for (CompiledBackward* node : nodes_) {
    if (node != nullptr && task.nodes_in_graph_.contains(node) && IsRun(task, node)) nodes.push_back(node);
  }
  return nodes;
}

bool BackwardRun::IsObserved(const Place& place, bool by_code) const {
  if (by_code ? HasHooksOfOthers(*place.node) : OutputGate::IsSeen(*place.node)) return true;
  if (place.gate == nullptr) return LeadsToSeenLeaf(*place.node);
  const ir::Graph& joint = plan_->joint();
  const ir::Output& output = joint.outputs[At(joint.inputs[At(plan_->tangents()[place.gate->tangent()])].tangent_of)];
  for (const SeenWrites::Write& w : seen_writes_.all()) {
    if (output.role != ir::OutputRole::kMutatedInput || w.input != output.input) continue;
    if (w.Is([by_code](autograd::Node& n) { return by_code ? HasHooksOfOthers(n) : OutputGate::IsSeen(n); }))
      return true;
  }
  return false;
}

BackwardRun::Unpacked BackwardRun::FirstFailure(const std::vector<std::int32_t>& readers, std::int64_t turn,
                                                autograd::Node& node) {
  std::vector<std::int32_t> run;
  for (std::int32_t n : readers) {
    if (plan_->TurnOfNode(n) < turn) run.push_back(n);
  }
  Unpacked found{{}, FirstUsedUp(run), nullptr};
  if (found.failed != ir::kNoNode) found.error = UsedUp();
  for (std::size_t s = 0; s < saved_.size() && !run.empty(); ++s) {
    const std::vector<std::int32_t>& of_value = plan_->use().ReadersOf(s);
    const auto n = std::find_if(of_value.begin(), of_value.end(),
                                [&](std::int32_t r) { return std::binary_search(run.begin(), run.end(), r); });
    if (n == of_value.end() || (found.failed != ir::kNoNode && plan_->FirstOfTurn(*n) >= found.failed)) continue;
    try {
      saved_.Unpack(s, NodeFor(s, node));
    } catch (const c10::Error&) {
      found.failed = plan_->FirstOfTurn(*n);
      found.error = detached_.IsRefused(*plan_, s, *n) ? DetachedResults::Error() : std::current_exception();
    }
  }
  const ir::NodeIndex refusing = detached_.FirstRefusing(*plan_, run);
  const bool first = found.error == nullptr || refusing < found.failed;
  if (refusing != ir::kNoNode && first) found = {{}, refusing, DetachedResults::Error()};
  return found;
}

void BackwardRun::ActBeforeNextSeen(autograd::Node& gate, std::size_t place, bool fails) {
  Pass& pass = PassOfNow();
  pass.passed[place] = true;
  std::vector<Place> to_come = PlacesAfter(pass, place, /*all=*/false);
  if (to_come.empty() || seen_writes_.HasViews() || has_hidden_view_) return;
  const Place next = to_come.front();
  if (!fails && !IsObserved(next, /*by_code=*/false)) return;
  const std::int32_t mine = places_[place].turn;
  std::int64_t until = next.turn;
  const std::vector<CompiledBackward*> nodes = NodesOfPass();
  if (mine < 0 || until <= mine || nodes.empty()) return;
  const CompiledBackward::Asked asked = CompiledBackward::AskedOf(nodes, pass);
  if (IsEmpty(asked.wanted)) return;
  std::unique_lock lock(running_);
  BackwardPlan::Key key{asked.wanted, pass.defined, CutOfBackward()};
  const std::vector<std::int32_t> readers = ValueOrThrow(plan_->ReadersFor(key));
  const Unpacked failure = FirstFailure(readers, until, gate);
  if (failure.error != nullptr) until = plan_->TurnOfNode(failure.failed);
  to_come = PlacesAfter(pass, place, /*all=*/true);
  const std::vector<bool> wait = WaitForOthers(asked.edges, nodes);
  for (std::size_t g = 0; g < key.wanted.size(); ++g) {
    const std::int32_t turn = plan_->TurnOf(g, key.defined);
    const bool led_to = std::any_of(to_come.begin(), to_come.end(), [&](const Place& p) {
      return p.gate != nullptr && plan_->Reaches(g, p.gate->tangent());
    });
    if (turn < 0 || turn >= until || led_to || (g < wait.size() && wait[g])) key.wanted[g] = '0';
  }
  const GradientTargets targets{gate, asked.edges, asked.first_made};
  const bool seen = fails || failure.error != nullptr || IsObserved(next, /*by_code=*/true) || AnyLeafHasHooks(targets);
  if (seen) {
    Accumulated accumulated = Accumulate(key, readers, pass.tangents, targets, &lock);
    for (std::size_t g = 0; g < accumulated.handed.size(); ++g) {
      if (accumulated.handed[g] != '1') continue;
      pass.handed[g] = '1';
      pass.gradients[g] = std::move(accumulated.left[g]);
    }
  }
  UseUp(readers, [&](ir::NodeIndex n) { return plan_->TurnOfNode(n) < until; });
  if (failure.error != nullptr) std::rethrow_exception(failure.error);
}

}  // namespace framefuse
