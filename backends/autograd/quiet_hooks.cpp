#include "backends/autograd/quiet_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <memory>
#include <utility>

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

class QuietHook final : public autograd::FunctionPreHook {
 public:
  explicit QuietHook(std::unique_ptr<autograd::FunctionPreHook> hook) : hook_(std::move(hook)) {}

  void SilenceIn(int graph_task) { silent_in_ = graph_task; }

  autograd::variable_list operator()(const autograd::variable_list& gradients) override {
    const bool reached = gradients.empty() || gradients[0].defined();
    if (!reached && silent_in_ == autograd::get_current_graph_task_id()) return gradients;
    return (*hook_)(gradients);
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override { hook_->compiled_args(args); }

 private:
  std::unique_ptr<autograd::FunctionPreHook> hook_;
  std::atomic<int> silent_in_ = -1;  // a leaf of another device accumulates on another thread
};

}  // namespace

void SilenceHooks(autograd::Node& leaf) {
  for (std::unique_ptr<autograd::FunctionPreHook>& hook : leaf.tensor_pre_hooks()) {
    auto* quiet = dynamic_cast<QuietHook*>(hook.get());
    if (quiet == nullptr) {
      auto made = std::make_unique<QuietHook>(std::move(hook));
      quiet = made.get();
      hook = std::move(made);
    }
    quiet->SilenceIn(autograd::get_current_graph_task_id());
  }
}

}  // namespace framefuse
