#include "backends/autograd/leaf_order.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "backends/autograd/end_of_backward.h"
#include "backends/autograd/pass_under_way.h"
#include "backends/autograd/quiet_hooks.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using NodePtr = decltype(autograd::Edge::function);

// What nodes of a pass lead to, with the number of the one of them that the engine runs last: the first made.
using LastToLead = std::unordered_map<const autograd::Node*, std::uint64_t>;

LastToLead WalkPass(const autograd::GraphTask& pass) {
  LastToLead last;
  const auto add = [&last](const autograd::Node& from) {
    for (const autograd::Edge& e : from.next_edges()) {
      if (!e.is_valid()) continue;
      const auto [it, is_first] = last.emplace(e.function.get(), from.sequence_nr());
      if (!is_first) it->second = std::min(it->second, from.sequence_nr());
    }
  };
  for (const autograd::Node* root : pass.graph_roots_) add(*root);
  for (const autograd::Node* node : pass.nodes_in_graph_) add(*node);
  return last;
}

// Many graphs may ask in one pass, which is walked once.
std::shared_ptr<const LastToLead> LastToLeadInPass() {
  static auto* walked = new PerPass<LastToLead>;  // lasts
  const autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return std::make_shared<LastToLead>();
  return walked->Get([pass] { return WalkPass(*pass); });
}

// Whether a node of the pass leads there that the engine has not run yet: it runs the later made ones first.
class ReachedLater {
 public:
  explicit ReachedLater(const GradientTargets& targets) : sequence_(targets.first_made), last_(LastToLeadInPass()) {}
  bool contains(const autograd::Node* leaf) const {
    const auto it = last_->find(leaf);
    return it != last_->end() && it->second < sequence_;
  }

 private:
  std::uint64_t sequence_;
  std::shared_ptr<const LastToLead> last_;
};

// As the engine does.
void AccumulateAt(autograd::Node& leaf, autograd::Variable gradient) {
  autograd::variable_list gradients{std::move(gradient)};
  for (const auto& hook : leaf.tensor_pre_hooks()) gradients = (*hook)(gradients);
  for (const auto& hook : leaf.pre_hooks()) gradients = (*hook)(gradients);
  if (leaf.post_hooks().empty()) {  // a copy here would be a second owner of the gradient
    leaf(std::move(gradients));
    return;
  }
  autograd::variable_list outputs = leaf(autograd::variable_list(gradients));
  for (const auto& hook : leaf.post_hooks()) outputs = (*hook)(outputs, gradients);
}

// What was added on another stream needs the engine's events. Older torch keeps no streams with what has arrived.
template <typename Buffer>
bool IsOfOtherStream(const Buffer& buffer, const std::optional<c10::Stream>& stream) {
  if constexpr (requires { buffer.ready_streams; }) {
    return std::any_of(buffer.ready_streams.begin(), buffer.ready_streams.end(),
                       [&](const auto& ready) { return ready.has_value() && ready != stream; });
  } else {
    return stream.has_value();
  }
}

// What has arrived at the leaf, if it can go there now; null: nothing. The pass is locked.
autograd::Variable* Pending(autograd::GraphTask& pass, autograd::Node& node, autograd::Node& leaf) {
  const auto it = pass.not_ready_.find(&leaf);
  if (it == pass.not_ready_.end()) return nullptr;
  autograd::InputBuffer& arrived = it->second;
  if (arrived.buffer.size() != 1 || !arrived.buffer[0].defined() || IsOfOtherStream(arrived, node.stream())) {
    return nullptr;
  }
  return &arrived.buffer[0];
}

// As the engine does where torch.autograd.grad asks for a leaf's gradient, which it then takes.
bool IsCaptured(const autograd::Node& leaf) {
  const auto* asked = autograd::get_current_graph_task_exec_info();
  if (asked == nullptr || asked->empty()) return false;
  const auto it = asked->find(const_cast<autograd::Node*>(&leaf));
  return it != asked->end() && !it->second.needed_ && it->second.captures_ != nullptr;
}

autograd::Variable CallTensorHooks(const NodePtr& leaf, autograd::Variable gradient) {
  autograd::variable_list gradients{std::move(gradient)};
  for (const auto& hook : leaf->tensor_pre_hooks()) gradients = (*hook)(gradients);
  SilenceTensorHooks(leaf);
  return std::move(gradients[0]);
}

autograd::Variable TakePending(autograd::Node& node, autograd::Node& leaf) {
  autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return {};
  std::lock_guard lock(pass->mutex_);
  autograd::Variable* pending = Pending(*pass, node, leaf);
  return pending == nullptr ? autograd::Variable() : std::exchange(*pending, autograd::Variable());
}

}  // namespace

bool RunsInPass(const autograd::Node& leaf) {
  const auto* asked = autograd::get_current_graph_task_exec_info();
  if (asked == nullptr || asked->empty()) return true;
  const auto it = asked->find(const_cast<autograd::Node*>(&leaf));
  return it != asked->end() && it->second.needed_ && it->second.captures_ == nullptr;
}

void AccumulateNow(const GradientTargets& targets, autograd::variable_list& gradients,
                   const std::vector<std::int32_t>& turns, absl::FunctionRef<void(std::size_t)> coming) {
  const ReachedLater later(targets);
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return turns[a] < turns[b]; });
  for (std::size_t i : order) {
    const autograd::Edge& e = targets.edges[i];
    if (!gradients[i].defined() || !e.is_valid() || !IsLeaf(e.function.get())) continue;
    const bool runs = RunsInPass(*e.function);
    if (later.contains(e.function.get()) || (!runs && !IsCaptured(*e.function))) continue;
    autograd::Variable gradient = std::exchange(gradients[i], autograd::Variable());
    const autograd::Variable pending = TakePending(targets.node, *e.function);
    if (pending.defined()) gradient = pending + gradient;
    coming(i);
    if (!runs) {
      gradients[i] = CallTensorHooks(e.function, std::move(gradient));
      continue;
    }
    AccumulateAt(*e.function, std::move(gradient));
    SilenceHooks(e.function);  // the engine comes there once more, and brings nothing
  }
}

bool AccumulateEarly(const GradientTargets& targets, std::size_t edge, autograd::Variable* gradient) {
  const autograd::Edge& e = targets.edges[edge];
  if (!gradient->defined() || !e.is_valid() || !IsLeaf(e.function.get())) return false;
  const bool runs = RunsInPass(*e.function);
  if (!runs && !IsCaptured(*e.function)) return false;
  // The engine waits for streams between nodes.
  if (e.function->stream() != targets.node.stream() || ReachedLater(targets).contains(e.function.get())) return false;
  const autograd::Variable pending = TakePending(targets.node, *e.function);
  if (pending.defined()) *gradient = pending + *gradient;
  if (!runs) {
    *gradient = CallTensorHooks(e.function, std::move(*gradient));
    return false;
  }
  AccumulateAt(*e.function, std::move(*gradient));
  SilenceHooks(e.function);  // the engine comes there once more, and brings nothing
  return true;
}

bool AnyLeafHasHooks(const GradientTargets& targets) {
  for (const autograd::Edge& e : targets.edges) {
    if (!e.is_valid()) continue;
    autograd::Node& n = *e.function;
    const bool hooked = !n.tensor_pre_hooks().empty() || !n.pre_hooks().empty() || !n.post_hooks().empty() ||
                        n.tensor_post_acc_grad_hooks() != nullptr;
    if (hooked && IsLeaf(&n)) return true;
  }
  return false;
}

void OrderLeaves(const GradientTargets& targets, const std::vector<std::int32_t>& turns) {
  const ReachedLater later(targets);
  std::vector<std::pair<std::int32_t, NodePtr>> leaves;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const autograd::Edge& e = targets.edges[i];
    if (turns[i] < 0 || !e.is_valid() || !IsLeaf(e.function.get()) || later.contains(e.function.get())) continue;
    leaves.emplace_back(turns[i], e.function);
  }
  if (leaves.size() < 2) return;
  std::stable_sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<NodePtr, std::uint64_t>> before;
  before.reserve(leaves.size());
  for (const auto& [turn, leaf] : leaves) before.emplace_back(leaf, leaf->sequence_nr());
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].second->set_sequence_nr(targets.first_leaf - i);
  AtEndOfBackward([before = std::move(before)] {
    for (const auto& [leaf, number] : before) leaf->set_sequence_nr(number);
  });
}

}  // namespace framefuse
