#include "backends/autograd/output_history.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <map>
#include <string>
#include <utility>

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

std::size_t At(std::int32_t i) { return static_cast<std::size_t>(i); }

// Whether a backward pass that brings it no gradient does anything that can be noticed.
bool NoticesUndefined(const at::Tensor& t, const autograd::Edge& edge) {
  if (!edge.is_valid()) return false;
  if (!t.is_leaf()) return true;
  autograd::Node& n = *edge.function;
  return !n.pre_hooks().empty() || !n.post_hooks().empty() || !n.tensor_pre_hooks().empty() ||
         n.tensor_post_acc_grad_hooks() != nullptr;
}

}  // namespace

OutputHistory::OutputHistory(std::shared_ptr<const BackwardPlan> plan, std::vector<std::int32_t> outputs,
                             std::size_t visible_outputs)
    : plan_(std::move(plan)), outputs_(std::move(outputs)), visible_outputs_(visible_outputs) {
  for (const ir::Output& o : plan_->joint().outputs) {
    if (o.role == ir::OutputRole::kGradient) inputs_.push_back(o.input);
  }
  for (std::size_t t = 1; t < plan_->tangents().size(); ++t) {
    for (std::size_t g = 0; g < inputs_.size(); ++g) {
      same_inputs_ = same_inputs_ && plan_->Depends(g, t) == plan_->Depends(g, 0);
    }
  }
}

std::vector<OutputHistory::Group> OutputHistory::Groups(absl::Span<const at::Tensor> inputs,
                                                        const autograd::edge_list& edges) const {
  std::map<std::vector<bool>, Group> groups;
  std::vector<bool> notices(inputs_.size(), false);
  for (std::size_t g = 0; g < inputs_.size() && !same_inputs_; ++g) {
    notices[g] = NoticesUndefined(inputs[At(inputs_[g])], edges[g]);
  }
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    std::vector<bool> reached(notices.size(), false);
    for (std::size_t g = 0; g < notices.size() && o < plan_->tangents().size(); ++g) {
      reached[g] = notices[g] && plan_->Depends(g, o);
    }
    groups[std::move(reached)].push_back(static_cast<std::int32_t>(o));
  }
  std::vector<Group> result;
  for (auto& [reached, group] : groups) result.push_back(std::move(group));
  return result;
}

autograd::edge_list OutputHistory::EdgesOf(const Group& group, const autograd::edge_list& edges) const {
  autograd::edge_list result = edges;
  for (std::size_t g = 0; g < result.size(); ++g) {
    bool reached = false;
    for (std::int32_t o : group) reached = reached || (At(o) < plan_->tangents().size() && plan_->Depends(g, At(o)));
    if (!reached) result[g] = autograd::Edge();
  }
  return result;
}

void OutputHistory::Record(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                           absl::Span<at::Tensor> outputs) const {
  if (!at::GradMode::is_enabled()) return;
  autograd::edge_list edges;
  edges.reserve(inputs_.size());
  bool any = false;
  for (std::int32_t i : inputs_) {
    const at::Tensor& t = inputs[At(i)];
    bool requires_grad = t.defined() && t.requires_grad();
    any = any || requires_grad;
    edges.push_back(requires_grad ? autograd::impl::gradient_edge(t) : autograd::Edge());
  }
  if (!any) return;
  auto runs = std::make_shared<BackwardRuns>();
  std::vector<Group> groups = Groups(inputs, edges);
  std::vector<AutogradNodePtr> nodes;
  for (const Group& group : groups) {
    autograd::edge_list own = groups.size() == 1 ? std::move(edges) : EdgesOf(group, edges);
    nodes.push_back(CompiledBackward::Create(plan_, std::move(own), group, runs));
    for (std::int32_t o : group) {
      at::Tensor& t = outputs[At(outputs_[At(o)])];
      // An operator may have returned its argument itself, which has a history of its own.
      if (t.defined() && t.unsafeGetTensorImpl()->autograd_meta() != nullptr) t = t.detach();
      autograd::set_history(t, nodes.back());
    }
  }
  for (const AutogradNodePtr& node : nodes) {
    CompiledBackward::From(node)->Save(inputs, outputs, visible_outputs_, symbols);
  }
}

namespace {
class SpentHistory final : public autograd::Node {
 public:
  explicit SpentHistory(autograd::edge_list edges) : Node(std::move(edges)) {}
  std::string name() const override { return "CompiledFunctionBackward"; }

 private:
  autograd::variable_list apply(autograd::variable_list&&) override {
    TORCH_CHECK(false, autograd::ERR_BACKWARD_TWICE);
  }
};
}  // namespace

void SetSpentHistory(at::Tensor& t, absl::Span<const at::Tensor> inputs) {
  if (!at::GradMode::is_enabled()) return;
  // What is behind waits for it, as in eager, and so is not reached by other outputs before the error.
  autograd::edge_list edges;
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) edges.push_back(autograd::impl::gradient_edge(input));
  }
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  AutogradNodePtr node(new SpentHistory(std::move(edges)), autograd::deleteNode);
#else
  AutogradNodePtr node = c10::make_intrusive<SpentHistory>(std::move(edges));
#endif
  if (t.unsafeGetTensorImpl()->autograd_meta() != nullptr) t = t.detach();
  autograd::set_history(t, node);
}

}  // namespace framefuse
