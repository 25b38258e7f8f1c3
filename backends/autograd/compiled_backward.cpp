#include "backends/autograd/compiled_backward.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include "backends/autograd/pass_under_way.h"
#include "common/index.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using State = BackwardRun::Pass::State;

}  // namespace

CompiledBackward::CompiledBackward(std::shared_ptr<BackwardRun> run, std::size_t place, autograd::edge_list edges)
    : Node(std::move(edges)), run_(std::move(run)), place_(place) {
  if (run_->HasGates()) run_->Add(*this);
}

CompiledBackward::~CompiledBackward() {
  if (run_->HasGates()) run_->Remove(*this);
}

// Gradients that the pass asks for and that depend on a defined tangent.
void CompiledBackward::AddWanted(const std::string& defined, std::string* wanted) const {
  for (std::size_t i = 0; i < inputs().gradients.size(); ++i) {
    if (!task_should_compute_output(i)) continue;
    const std::size_t g = At(inputs().gradients[i]);
    for (std::size_t t = 0; t < defined.size(); ++t) {
      if (defined[t] == '1' && run_->plan().Depends(g, t)) (*wanted)[g] = '1';
    }
  }
}

autograd::variable_list CompiledBackward::apply(autograd::variable_list&& gradients) {
  autograd::variable_list own = std::move(gradients);
  return run_->IsJoint() && PassUnderWay() != nullptr ? ApplyTogether(std::move(own)) : ApplyAlone(std::move(own));
}

autograd::variable_list CompiledBackward::ApplyAlone(autograd::variable_list gradients) {
  RECORD_USER_SCOPE(kRange);
  const BackwardPlan& plan = run_->plan();
  std::string defined(plan.tangents().size(), '0');
  autograd::variable_list tangents(defined.size());
  for (std::size_t i = 0; i < inputs().tangents.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const std::size_t t = At(inputs().tangents[i]);
    defined[t] = '1';
    tangents[t] = std::move(gradients[i]);
  }
  gradients.clear();
  std::string wanted(plan.gradients().size(), '0');
  AddWanted(defined, &wanted);
  if (!run_->HasGates()) {
    const GradientTargets targets{*this, next_edges(), sequence_nr()};
    return run_->InputGradients(std::move(tangents), std::move(defined), std::move(wanted), targets, &used_);
  }
  autograd::edge_list edges(plan.input_gradients());
  for (std::size_t i = 0; i < num_outputs(); ++i) edges[At(inputs().gradients[i])] = next_edge(i);
  const GradientTargets targets{*this, edges, sequence_nr()};
  autograd::variable_list found =
      run_->InputGradients(std::move(tangents), std::move(defined), std::move(wanted), targets, &used_);
  computed_ = true;
  last_ = PassUnderWay() == nullptr || run_->EndsPass(*this);
  autograd::variable_list result;
  for (std::int32_t g : inputs().gradients) result.push_back(std::move(found[At(g)]));
  return result;
}

autograd::variable_list CompiledBackward::ApplyTogether(autograd::variable_list gradients) {
  BackwardRun::Pass& pass = run_->PassOfNow();
  // A pass may start here, or be told again what has come to a gate.
  for (std::size_t i = 0; i < inputs().tangents.size(); ++i) {
    const std::size_t t = At(inputs().tangents[i]);
    if (!gradients[i].defined() || pass.defined[t] == '1') continue;
    pass.defined[t] = '1';
    pass.tangents[t] = std::move(gradients[i]);
  }
  gradients.clear();
  computed_ = false;
  if (pass.states[place_] == State::kWaiting) Compute(pass);
  if (pass.error != nullptr) {
    // The engine's queue keeps what is ready when a pass fails until the next one: the last of the nodes fails.
    if (--pass.failing == 0) std::rethrow_exception(std::exchange(pass.error, nullptr));
    HoldBack();
    return autograd::variable_list(num_outputs());
  }
  TORCH_CHECK(pass.states[place_] == State::kComputed,
              "a hook of a leaf runs a backward pass on several devices, while a graph's own is under way");
  autograd::variable_list result;
  result.reserve(num_outputs());
  for (std::int32_t g : inputs().gradients) result.push_back(std::move(pass.gradients[At(g)]));
  return result;
}

CompiledBackward::Asked CompiledBackward::AskedOf(absl::Span<CompiledBackward* const> nodes,
                                                  const BackwardRun::Pass& pass) {
  const BackwardPlan& plan = nodes.front()->run_->plan();
  Asked asked{std::string(plan.gradients().size(), '0'), autograd::edge_list(plan.input_gradients()), UINT64_MAX};
  for (const CompiledBackward* node : nodes) {
    node->AddWanted(pass.defined, &asked.wanted);
    for (std::size_t i = 0; i < node->num_outputs(); ++i) {
      asked.edges[At(node->inputs().gradients[i])] = node->next_edge(i);
    }
    asked.first_made = std::min(asked.first_made, node->sequence_nr());
  }
  for (std::size_t g = 0; g < asked.wanted.size(); ++g) {
    if (pass.handed[g] == '1') asked.wanted[g] = '0';
  }
  return asked;
}

void CompiledBackward::Compute(BackwardRun::Pass& pass) {
  RECORD_USER_SCOPE(kRange);
  const BackwardRun::Waiting waiting = run_->WaitingIn(pass, *this);
  Asked asked = AskedOf(waiting.ready, pass);
  for (const CompiledBackward* node : waiting.ready) pass.states[node->place_] = State::kTaken;
  autograd::variable_list tangents = waiting.others ? pass.tangents : std::exchange(pass.tangents, {});
  const GradientTargets targets{*this, asked.edges, asked.first_made, asked.first_made - 1};
  autograd::variable_list found;
  try {
    found = run_->InputGradients(std::move(tangents), pass.defined, std::move(asked.wanted), targets, &used_);
  } catch (...) {
    pass.error = std::current_exception();
    pass.failing = waiting.ready.size();
    return;
  }
  for (const CompiledBackward* node : waiting.ready) {
    for (std::int32_t g : node->inputs().gradients) {
      if (pass.handed[At(g)] != '1') pass.gradients[At(g)] = std::move(found[At(g)]);
    }
    pass.states[node->place_] = State::kComputed;
  }
  computed_ = true;
  last_ = !waiting.others;
}

void CompiledBackward::HoldBack() const {
  autograd::GraphTask& pass = *PassUnderWay();
  const std::lock_guard lock(pass.mutex_);
  for (const autograd::Edge& e : next_edges()) {
    if (e.is_valid()) ++pass.dependencies_[e.function.get()];
  }
}

void CompiledBackward::release_variables() {
  // Up to torch 2.12 a node that dies is asked, too: others of its run may need what is saved.
  const bool is_asked = autograd::get_current_graph_task_id() >= 0 && std::exchange(computed_, false);
  if (!run_->HasGates() || is_asked) run_->Release(used_, last_);
}

}  // namespace framefuse
