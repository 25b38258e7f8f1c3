#include "backends/autograd/output_gate.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "backends/autograd/dead_edges.h"
#include "backends/autograd/unasked_nodes.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

// Whether somebody sees what comes to the node in this pass.
bool IsObserved(autograd::Node& node) {
  if (!node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty()) return true;
  if (!node.pre_hooks().empty() || !node.post_hooks().empty()) return true;
  const auto* asked = autograd::get_current_graph_task_exec_info();
  if (asked == nullptr) return false;
  const auto it = asked->find(&node);
  return it != asked->end() && it->second.captures_ != nullptr;
}

}  // namespace

OutputGate::OutputGate(std::shared_ptr<const BackwardPlan> plan, std::size_t tangent, std::vector<std::size_t> places,
                       autograd::edge_list edges, std::shared_ptr<BackwardRuns> runs)
    : Node(std::move(edges)),
      plan_(std::move(plan)),
      tangent_(tangent),
      places_(std::move(places)),
      runs_(std::move(runs)) {}

std::string OutputGate::DecideCut() const {
  constexpr std::size_t kPasses = 16;  // nobody tells of a pass's end
  std::lock_guard lock(runs_->mutex);
  auto& passes = runs_->cut_in;
  std::string& cut = passes[autograd::get_current_graph_task_id()];
  cut.resize(plan_->output_gradients().size(), '?');
  for (std::size_t k = 0; k < places_.size(); ++k) {
    char& here = cut[places_[k]];
    const autograd::Edge& edge = next_edge(k + 1);
    if (here == '?') here = edge.is_valid() && IsObserved(*edge.function) ? '1' : '0';
  }
  std::string result = cut;
  if (passes.size() > kPasses) passes.erase(passes.begin());
  return result;
}

autograd::variable_list OutputGate::apply(autograd::variable_list&& gradients) {
  PassOverUnasked();
  ForgetDeadEdges(*this);
  autograd::variable_list result(num_outputs());
  used_ = {{}, /*everything=*/false};
  used_in_ = autograd::get_current_graph_task_id();
  if (!places_.empty() && gradients[0].defined()) {
    BackwardPlan::Key key{std::string(plan_->gradients().size(), '0'), std::string(plan_->tangents().size(), '0'),
                          DecideCut()};
    key.defined[tangent_] = '1';
    for (std::size_t k = 0; k < places_.size(); ++k) {
      const bool wanted = key.cut[places_[k]] == '1' && task_should_compute_output(k + 1);
      if (wanted) key.wanted[plan_->output_gradients()[places_[k]].gradient] = '1';
    }
    autograd::variable_list tangents(key.defined.size());
    tangents[tangent_] = gradients[0];
    autograd::variable_list found = Whole().Gradients(std::move(tangents), key, &used_);
    for (std::size_t k = 0; k < places_.size(); ++k) {
      result[k + 1] = std::move(found[plan_->output_gradients()[places_[k]].gradient]);
    }
    if (at::GradMode::is_enabled()) used_ = {{}, /*everything=*/false};  // the graph of the gradient keeps it
  }
  result[0] = std::move(gradients[0]);
  return result;
}

void OutputGate::release_variables() {
  // Up to torch 2.12 a node that dies is asked, too: what it used belongs to others.
  if (used_.readers.empty() || used_in_ != autograd::get_current_graph_task_id()) return;
  Whole().Release(used_, /*last=*/!task_should_compute_output(0));
}

}  // namespace framefuse
