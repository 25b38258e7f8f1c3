#include "backends/autograd/leaf_order.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/end_of_pass.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using NodePtr = decltype(autograd::Edge::function);

bool IsLeaf(const autograd::Node* node) { return dynamic_cast<const autograd::AccumulateGrad*>(node) != nullptr; }

// torch names the members of the pass under way, but not the pass.
autograd::GraphTask* PassUnderWay() {
  const auto* nodes = autograd::get_current_graph_task_nodes_in_graph();
  if (nodes == nullptr) return nullptr;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  const std::size_t offset = offsetof(autograd::GraphTask, nodes_in_graph_);
#pragma GCC diagnostic pop
  auto* member = reinterpret_cast<std::byte*>(const_cast<std::unordered_set<autograd::Node*>*>(nodes));
  return reinterpret_cast<autograd::GraphTask*>(member - offset);
}

// Walks a pass as eager would run it: of a graph's node it takes the edges that the inputs it comes by lead to.
class Walk {
 public:
  using Seen = absl::FunctionRef<void(const autograd::Node& from, const autograd::Edge& to)>;

  void Start(const autograd::Node* root) {
    for (std::size_t i = 0; i < root->num_inputs(); ++i) Come(root, i);
  }
  void Run(Seen seen) {
    while (!open_.empty()) {
      const auto [node, input] = open_.back();
      open_.pop_back();
      const auto* graph = dynamic_cast<const CompiledBackward*>(node);
      for (std::size_t i = 0; i < node->num_outputs(); ++i) {
        const autograd::Edge& e = node->next_edge(i);
        if (!e.is_valid() || (graph != nullptr && !graph->Reaches(i, input))) continue;
        seen(*node, e);
        Come(e.function.get(), e.input_nr);
      }
    }
  }

 private:
  void Come(const autograd::Node* node, std::size_t input) {
    // Only a graph's node tells its inputs apart.
    if (dynamic_cast<const CompiledBackward*>(node) == nullptr) input = 0;
    if (come_.emplace(node, input).second) open_.emplace_back(node, input);
  }

  std::vector<std::pair<const autograd::Node*, std::size_t>> open_;
  std::set<std::pair<const autograd::Node*, std::size_t>> come_;
};

// Where nodes of the pass lead that the engine has not run yet: it runs the later made ones first.
std::unordered_set<const autograd::Node*> ReachedLater(const autograd::Node& node) {
  std::unordered_set<const autograd::Node*> reached;
  const autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return reached;
  Walk walk;
  for (const autograd::Node* root : pass->graph_roots_) walk.Start(root);
  walk.Run([&](const autograd::Node& from, const autograd::Edge& to) {
    if (&from != &node && from.sequence_nr() < node.sequence_nr()) reached.insert(to.function.get());
  });
  return reached;
}

// With a list of inputs (torch.autograd.grad) a pass may end before the leaf's node.
bool RunsInPass(autograd::Node& leaf) {
  const auto* asked = autograd::get_current_graph_task_exec_info();
  if (asked == nullptr || asked->empty()) return true;
  const auto it = asked->find(&leaf);
  return it != asked->end() && it->second.needed_ && it->second.captures_ == nullptr;
}

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

bool HasPending(autograd::Node& node, autograd::Node& leaf) {
  autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return false;
  std::lock_guard lock(pass->mutex_);
  return Pending(*pass, node, leaf) != nullptr;
}

autograd::Variable TakePending(autograd::Node& node, autograd::Node& leaf) {
  autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return {};
  std::lock_guard lock(pass->mutex_);
  autograd::Variable* pending = Pending(*pass, node, leaf);
  return pending == nullptr ? autograd::Variable() : std::exchange(*pending, autograd::Variable());
}

}  // namespace

void AccumulatePending(autograd::Node& node, const std::vector<std::size_t>& edges) {
  std::vector<NodePtr> leaves;
  for (std::size_t i : edges) {
    const NodePtr& leaf = node.next_edge(i).function;
    if (leaf && IsLeaf(leaf.get()) && RunsInPass(*leaf) && HasPending(node, *leaf)) leaves.push_back(leaf);
  }
  if (leaves.empty()) return;
  const std::unordered_set<const autograd::Node*> later = ReachedLater(node);
  for (const NodePtr& leaf : leaves) {
    if (later.contains(leaf.get())) continue;
    if (autograd::Variable gradient = TakePending(node, *leaf); gradient.defined()) {
      AccumulateAt(*leaf, std::move(gradient));
    }
  }
}

void AccumulateNow(autograd::Node& node, autograd::variable_list gradients) {
  const std::unordered_set<const autograd::Node*> later = ReachedLater(node);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const autograd::Edge& e = node.next_edge(i);
    if (!gradients[i].defined() || !e.is_valid() || !IsLeaf(e.function.get())) continue;
    if (later.contains(e.function.get()) || !RunsInPass(*e.function)) continue;
    const autograd::Variable pending = TakePending(node, *e.function);
    AccumulateAt(*e.function, pending.defined() ? pending + gradients[i] : std::move(gradients[i]));
  }
}

bool AnyLeafHasHooks(const autograd::Node& node) {
  for (const autograd::Edge& e : node.next_edges()) {
    if (!e.is_valid()) continue;
    autograd::Node& n = *e.function;
    const bool hooked = !n.tensor_pre_hooks().empty() || !n.pre_hooks().empty() || !n.post_hooks().empty() ||
                        n.tensor_post_acc_grad_hooks() != nullptr;
    if (hooked && IsLeaf(&n)) return true;
  }
  return false;
}

void OrderLeaves(autograd::Node& node, const std::vector<std::int32_t>& turns) {
  const std::unordered_set<const autograd::Node*> later = ReachedLater(node);
  std::vector<std::pair<std::int32_t, NodePtr>> leaves;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const autograd::Edge& e = node.next_edge(i);
    if (turns[i] < 0 || !e.is_valid() || !IsLeaf(e.function.get()) || later.contains(e.function.get())) continue;
    leaves.emplace_back(turns[i], e.function);
  }
  if (leaves.size() < 2) return;
  std::stable_sort(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<NodePtr, std::uint64_t>> before;
  before.reserve(leaves.size());
  for (const auto& [turn, leaf] : leaves) before.emplace_back(leaf, leaf->sequence_nr());
  // A leaf's number is the highest there is: the engine comes to it as soon as it can.
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].second->set_sequence_nr(UINT64_MAX - i);
  AtEndOfPass([before = std::move(before)] {
    for (const auto& [leaf, number] : before) leaf->set_sequence_nr(number);
  });
}

}  // namespace framefuse
