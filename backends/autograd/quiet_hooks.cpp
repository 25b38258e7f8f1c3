#include "backends/autograd/quiet_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "backends/autograd/end_of_backward.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using NodePtr = decltype(autograd::Edge::function);

// The backward pass in which a hook is passed over where no gradient has arrived, or wherever it has been called
// before.
class Silence {
 public:
  void In(int graph_task) { graph_task_ = graph_task; }
  void AlwaysIn(int graph_task) { always_in_ = graph_task; }
  bool Covers(const autograd::variable_list& gradients) const {
    const bool reached = gradients.empty() || gradients[0].defined();
    const int now = autograd::get_current_graph_task_id();
    return always_in_ == now || (!reached && graph_task_ == now);
  }

 private:
  std::atomic<int> graph_task_ = -1;  // a leaf of another device accumulates on another thread
  std::atomic<int> always_in_ = -1;
};

class QuietPreHook final : public autograd::FunctionPreHook {
 public:
  using Hook = autograd::FunctionPreHook;
  explicit QuietPreHook(std::unique_ptr<Hook> hook) : hook_(std::move(hook)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    return silence.Covers(gradients) ? gradients : (*hook_)(gradients);
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override { hook_->compiled_args(args); }

  Silence silence;

 private:
  std::unique_ptr<Hook> hook_;
};

class QuietPostHook final : public autograd::FunctionPostHook {
 public:
  using Hook = autograd::FunctionPostHook;
  explicit QuietPostHook(std::unique_ptr<Hook> hook) : hook_(std::move(hook)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list& gradients) override {
    return silence.Covers(gradients) ? outputs : (*hook_)(outputs, gradients);
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override { hook_->compiled_args(args); }

  const Hook& inner() const { return *hook_; }
  std::unique_ptr<Hook> Take() { return std::move(hook_); }

  Silence silence;

 private:
  std::unique_ptr<Hook> hook_;
};

// What a leaf's hook after its accumulation is not told: whether a gradient arrived. A pre-hook of the pass is.
class Arrivals final : public autograd::FunctionPreHook {
 public:
  explicit Arrivals(std::shared_ptr<std::atomic<bool>> arrived) : arrived_(std::move(arrived)) {}
  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    if (gradients.empty() || gradients[0].defined()) *arrived_ = true;
    return gradients;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {}
  bool IsFor(const std::shared_ptr<std::atomic<bool>>& arrived) const { return arrived_ == arrived; }

 private:
  std::shared_ptr<std::atomic<bool>> arrived_;
};

class QuietAccumulatedHook final : public autograd::PostAccumulateGradHook {
 public:
  using Hook = autograd::PostAccumulateGradHook;
  explicit QuietAccumulatedHook(std::unique_ptr<Hook> hook) : hook_(std::move(hook)) {}
  void operator()(const autograd::Variable& leaf) override {
    if (arrived_->exchange(false) || !IsOfThisPass()) (*hook_)(leaf);
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override { hook_->compiled_args(args); }
  void apply_with_saved(autograd::Variable& leaf, torch::dynamo::autograd::SwapSavedVariables& saved) override {
    hook_->apply_with_saved(leaf, saved);
  }

  bool IsOfThisPass() const { return graph_task_ == autograd::get_current_graph_task_id(); }
  const std::shared_ptr<std::atomic<bool>>& arrived() const { return arrived_; }
  std::unique_ptr<Hook> Take() { return std::move(hook_); }

 private:
  std::unique_ptr<Hook> hook_;
  std::shared_ptr<std::atomic<bool>> arrived_ = std::make_shared<std::atomic<bool>>(false);
  const int graph_task_ = autograd::get_current_graph_task_id();
};

// A hook that a program takes away meanwhile is not brought back.
void SilenceAccumulatedHook(const NodePtr& leaf) {
  std::unique_ptr<autograd::PostAccumulateGradHook>& hook = leaf->tensor_post_acc_grad_hooks();
  const auto* former = dynamic_cast<const QuietAccumulatedHook*>(hook.get());
  if (hook == nullptr || (former != nullptr && former->IsOfThisPass())) return;
  auto quiet = std::make_unique<QuietAccumulatedHook>(std::move(hook));
  const std::shared_ptr<std::atomic<bool>> arrived = quiet->arrived();
  hook = std::move(quiet);
  leaf->add_pre_hook(std::make_unique<Arrivals>(arrived));
  AtEndOfBackward([leaf, arrived] {
    std::erase_if(leaf->pre_hooks(), [&](const auto& pre_hook) {
      const auto* arrivals = dynamic_cast<const Arrivals*>(pre_hook.get());
      return arrivals != nullptr && arrivals->IsFor(arrived);
    });
    std::unique_ptr<autograd::PostAccumulateGradHook>& now = leaf->tensor_post_acc_grad_hooks();
    auto* quiet = dynamic_cast<QuietAccumulatedHook*>(now.get());
    if (quiet != nullptr && quiet->arrived() == arrived) now = quiet->Take();
  });
}

template <typename Quiet>
Silence& SilenceOf(std::unique_ptr<typename Quiet::Hook>& hook) {
  auto* quiet = dynamic_cast<Quiet*>(hook.get());
  if (quiet == nullptr) {
    auto made = std::make_unique<Quiet>(std::move(hook));
    quiet = made.get();
    hook = std::move(made);
  }
  return quiet->silence;
}

bool IsOfPython(const autograd::FunctionPostHook& hook) {
  const std::string_view type = typeid(hook).name();
  return type == typeid(QuietPostHook).name() || type.find("PyFunctionPostHook") != std::string_view::npos;
}

// Hooks that C++ put there are known by their address to who did (DistributedDataParallel): after the pass they stand
// where they stood.
void PutBackAfterBackward(const NodePtr& leaf) {
  AtEndOfBackward([leaf] {
    for (auto& hook : leaf->post_hooks()) {
      auto* quiet = dynamic_cast<QuietPostHook*>(hook.get());
      if (quiet != nullptr && !IsOfPython(quiet->inner())) hook = quiet->Take();
    }
  });
}

}  // namespace

void SilenceHooks(const NodePtr& leaf) {
  const int graph_task = autograd::get_current_graph_task_id();
  for (auto& hook : leaf->tensor_pre_hooks()) SilenceOf<QuietPreHook>(hook).In(graph_task);
  for (auto& hook : leaf->pre_hooks()) SilenceOf<QuietPreHook>(hook).In(graph_task);
  bool put_back = false;
  for (auto& hook : leaf->post_hooks()) {
    put_back = put_back || !IsOfPython(*hook);
    SilenceOf<QuietPostHook>(hook).In(graph_task);
  }
  if (put_back) PutBackAfterBackward(leaf);
  SilenceAccumulatedHook(leaf);
}

void SilenceTensorHooks(const NodePtr& leaf) {
  const int graph_task = autograd::get_current_graph_task_id();
  for (auto& hook : leaf->tensor_pre_hooks()) SilenceOf<QuietPreHook>(hook).AlwaysIn(graph_task);
}

}  // namespace framefuse
