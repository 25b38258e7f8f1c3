#include "symbolic/tracing/autograd_bridge.h"

#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/own_hook.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

// Stands for the history of an input that is no leaf. Gradients are asked for at its edge, so it never runs, unless the
// program itself calls backward(): what lies behind is not in the capture.
struct InputHistory : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    Recorder* recorder = Recorder::Current();
    TORCH_CHECK(recorder != nullptr, "a gradient reached the history of an input outside a capture");
    recorder->SetPendingBreak({BreakKind::kHiddenState,
                               "backward",
                               "a gradient flows into the history of a tensor made before the captured code",
                               {}});
    return {};
  }
  std::string name() const override { return "InputHistory"; }
};

[[maybe_unused]] std::shared_ptr<InputHistory> MakeHistory(std::shared_ptr<torch::autograd::Node>*) {
  return std::make_shared<InputHistory>();
}

template <typename Pointer>
auto MakeHistory(Pointer*) {
  return c10::make_intrusive<InputHistory>();
}

}  // namespace

at::Tensor MakeNonLeaf(const at::Tensor& fake) {
  // torch 2.11 counts nodes with shared_ptr, 2.13 with intrusive_ptr.
  auto history = MakeHistory(static_cast<decltype(torch::autograd::Edge::function)*>(nullptr));
  const auto index = history->add_input_metadata(fake);
  at::Tensor alias(fake.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(/*version=*/0),
                                                                       /*allow_tensor_metadata_change=*/false));
  torch::autograd::impl::set_gradient_edge(alias, {history, static_cast<std::uint32_t>(index)});
  torch::autograd::impl::set_gradient_edge(fake, {std::move(history), static_cast<std::uint32_t>(index)});
  return alias;
}

std::function<void()> CutHistories(const std::vector<at::Tensor>& fakes) {
  std::vector<std::pair<at::Tensor, torch::autograd::Edge>> cut;
  for (const at::Tensor& t : fakes) {
    if (!t.requires_grad() || HasOwnHistory(t)) continue;
    cut.emplace_back(t, torch::autograd::impl::gradient_edge(t));
    auto history = MakeHistory(static_cast<decltype(torch::autograd::Edge::function)*>(nullptr));
    const auto index = history->add_input_metadata(t);
    torch::autograd::impl::set_gradient_edge(t, {std::move(history), static_cast<std::uint32_t>(index)});
  }
  return [cut = std::move(cut)] {
    for (const auto& [tensor, edge] : cut) torch::autograd::impl::set_gradient_edge(tensor, edge);
  };
}

bool HasOwnHistory(const at::Tensor& fake) {
  return IsLeaf(fake) || dynamic_cast<InputHistory*>(fake.grad_fn().get()) != nullptr;
}

bool ReachesHistoryOfOther(const std::vector<at::Tensor>& outputs, const at::Tensor& target) {
  using torch::autograd::Node;
  const auto own = target.grad_fn();
  std::vector<const Node*> open;
  std::unordered_set<const Node*> come;
  const auto come_to = [&](const Node* node) {
    if (node != nullptr && come.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& t : outputs) come_to(t.grad_fn().get());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node != own.get() && dynamic_cast<const InputHistory*>(node) != nullptr) return true;
    for (const torch::autograd::Edge& e : node->next_edges()) come_to(e.function.get());
  }
  return false;
}

std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& tangents) {
  // Python functions of the pass are captured by the thread that captures.
  struct OneThread {
    bool was = c10::AutogradState::get_tls_state().get_multithreading_enabled();
    OneThread() { c10::AutogradState::get_tls_state().set_multithreading_enabled(false); }
    ~OneThread() { c10::AutogradState::get_tls_state().set_multithreading_enabled(was); }
  } one_thread;
  std::vector<at::Tensor> gradients = torch::autograd::grad(outputs, inputs, tangents, /*retain_graph=*/true,
                                                            /*create_graph=*/false, /*allow_unused=*/true);
  if (gradients.size() == inputs.size()) return gradients;
  throw std::runtime_error(absl::StrCat("torch gave ", gradients.size(), " gradients of ", inputs.size(), " tensors"));
}

void ReleaseHistories(const std::vector<at::Tensor>& fakes) {
  using torch::autograd::Node;
  std::unordered_set<Node*> come;
  std::vector<Node*> open;
  std::vector<torch::autograd::Edge> kept;  // a node that lets go of what it saved may free others
  for (const at::Tensor& fake : fakes) {
    // As it stands: that of a view whose base was written is not made for this.
    Node* last = torch::autograd::impl::grad_fn_unsafe(fake);
    if (last != nullptr && come.insert(last).second) open.push_back(last);
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& e : node->next_edges()) {
      if (e.function == nullptr || !come.insert(e.function.get()).second) continue;
      kept.push_back(e);
      open.push_back(e.function.get());
    }
  }
  for (Node* node : come) node->release_variables();
}

std::int64_t CurrentBackwardSequence() {
  auto node = torch::autograd::get_current_node();
  return node == nullptr ? -1 : static_cast<std::int64_t>(node->sequence_nr());
}

std::string CurrentBackwardName() {
  auto node = torch::autograd::get_current_node();
  return node == nullptr ? std::string() : node->name();
}

std::int64_t LastForwardSequence() { return static_cast<std::int64_t>(at::sequence_number::peek()) - 1; }

bool HasGradientHooks(const at::Tensor& t) {
  if (torch::autograd::impl::get_autograd_meta(t) == nullptr) return false;
  return !torch::autograd::impl::hooks(t).empty() || torch::autograd::impl::post_acc_grad_hooks(t) != nullptr;
}

// On its way to the base, which a write leaves: as the guard of an input compares them.
bool HasHooksOfView(const at::Tensor& view) {
  const at::Tensor base(view._base());
  const torch::autograd::Node* const end = base.grad_fn().get();
  torch::autograd::Node* node = view.grad_fn().get();
  while (node != nullptr && node != end && node->num_outputs() == 1) {
    if (HasHooksOfOthers(*node)) return true;
    node = node->next_edge(0).function.get();
  }
  return false;
}

const char* WhyHooksTell(const at::Tensor& real, const at::Tensor& fake, const at::Tensor& history, bool is_written) {
  if (fake.retains_grad() && !real.retains_grad()) return "retain_grad() is called on an input";
  if (HasGradientHooks(fake)) return "a hook is put on an input";
  if (!is_written) return nullptr;
  if (history.defined() && !history.grad_fn()->tensor_pre_hooks().empty()) return "an input gets a hook and is written";
  const bool is_view = real.is_view() && real.requires_grad();
  return is_view && HasHooksOfView(real) ? "a view is written that has hooks, or a view that it is of" : nullptr;
}

void ForgetUnrunTasks() {
  if (torch::autograd::get_current_graph_task_id() != -1) return;  // the queue is in use
  struct QueueAccess : torch::autograd::Engine {
    using Engine::init_local_ready_queue;
  };
  constexpr auto kReplace = &QueueAccess::init_local_ready_queue;
  (torch::autograd::Engine::get_default_engine().*kReplace)(std::make_shared<torch::autograd::ReadyQueue>());
}

void ForgetCasts() { at::autocast::clear_cache(); }

namespace {
thread_local int function_forward_depth = 0;
}  // namespace

FunctionForwardScope::FunctionForwardScope() { ++function_forward_depth; }
FunctionForwardScope::~FunctionForwardScope() { --function_forward_depth; }
bool FunctionForwardScope::IsOpen() { return function_forward_depth > 0; }

const void* GradientFunction(const at::Tensor& t) { return t.grad_fn().get(); }

}  // namespace framefuse::tracing
