#include "backends/autograd/output_gate.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "backends/autograd/pass_under_way.h"
#include "common/own_hook.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

}  // namespace

OutputGate::OutputGate(std::shared_ptr<BackwardRun> run, std::size_t tangent, std::vector<std::size_t> places,
                       autograd::edge_list edges)
    : Node(std::move(edges)),
      run_(std::move(run)),
      tangent_(tangent),
      place_(run_->Add(*this)),
      places_(std::move(places)) {}

OutputGate::~OutputGate() { run_->RemoveGate(place_); }

bool OutputGate::IsSeen(autograd::Node& node) {
  if (HasHooksOfOthers(node) || !node.retains_grad_hooks().empty()) return true;
  const auto* asked = autograd::get_current_graph_task_exec_info();
  if (asked == nullptr) return false;
  const auto it = asked->find(&node);
  return it != asked->end() && it->second.captures_ != nullptr;
}

void OutputGate::BringToPlaces(const at::Tensor& gradient, autograd::variable_list* result) {
  const BackwardPlan& plan = run_->plan();
  BackwardPlan::Key key{std::string(plan.gradients().size(), '0'), std::string(plan.tangents().size(), '0'),
                        run_->DecideCut(places_, [this](std::size_t k) {
                          const autograd::Edge& edge = EdgeTo(k);
                          return edge.is_valid() && run_->seen_writes().IsSeen(*edge.function);
                        })};
  key.defined[tangent_] = '1';
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const bool wanted = key.cut[places_[k]] == '1' && task_should_compute_output(nodes() + k);
    if (wanted) key.wanted[plan.output_gradients()[places_[k]].gradient] = '1';
  }
  autograd::variable_list tangents(key.defined.size());
  tangents[tangent_] = gradient;
  const GradientTargets no_leaves{*this, {}};
  autograd::variable_list found = run_->Gradients(std::move(tangents), key, no_leaves, &used_);
  for (std::size_t k = 0; k < places_.size(); ++k) {
    (*result)[nodes() + k] = std::move(found[plan.output_gradients()[places_[k]].gradient]);
  }
}

// Nodes that compute together are not given it by the engine: each would hold it until it runs.
void OutputGate::HandOver(at::Tensor gradient, autograd::variable_list* result) {
  const bool together = run_->IsJoint() && PassUnderWay() != nullptr;
  bool seen = !together || !post_hooks().empty();
  bool asked = false;
  for (std::size_t n = 0; n < nodes(); ++n) {
    seen = seen || IsSeen(*next_edge(n).function);
    asked = asked || task_should_compute_output(n);
  }
  for (std::size_t n = 0; n < nodes() && seen; ++n) (*result)[n] = gradient;
  if (!together || !asked || !gradient.defined()) return;
  BackwardRun::Pass& pass = run_->PassOfNow();
  pass.defined[tangent_] = '1';
  pass.tangents[tangent_] = std::move(gradient);
}

autograd::variable_list OutputGate::apply(autograd::variable_list&& gradients) {
  autograd::variable_list result(num_outputs());
  used_ = {{}, /*everything=*/false};
  used_in_ = autograd::get_current_graph_task_id();
  HandOver(gradients[0], &result);
  const bool joint = run_->IsJoint() && PassUnderWay() != nullptr;
  if (joint) run_->ActBeforeNextSeen(*this, place_, /*fails=*/false);
  if (places_.empty() || !gradients[0].defined()) return result;
  try {
    BringToPlaces(gradients[0], &result);
  } catch (...) {
    if (joint) run_->ActBeforeNextSeen(*this, place_, /*fails=*/true);
    throw;
  }
  return result;
}

void OutputGate::release_variables() {
  // Up to torch 2.12 a node that dies is asked, too: what it used belongs to others.
  if (used_.readers.empty() || used_in_ != autograd::get_current_graph_task_id()) return;
  bool last = true;
  for (std::size_t n = 0; n < nodes(); ++n) last = last && !task_should_compute_output(n);
  run_->Release(used_, last);
}

}  // namespace framefuse
