#include "backends/autograd/leaf_order.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "backends/autograd/end_of_pass.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using NodePtr = decltype(autograd::Edge::function);

bool IsLeaf(const autograd::Node* node) { return dynamic_cast<const autograd::AccumulateGrad*>(node) != nullptr; }

// Where nodes of the pass lead that the engine has not run yet: it runs the later made ones first.
std::unordered_set<const autograd::Node*> ReachedLater(const autograd::Node& node) {
  std::unordered_set<const autograd::Node*> reached;
  const auto* of_pass = autograd::get_current_graph_task_nodes_in_graph();
  if (of_pass == nullptr) return reached;
  for (const autograd::Node* other : *of_pass) {
    if (other == &node || other->sequence_nr() >= node.sequence_nr()) continue;
    for (const autograd::Edge& e : other->next_edges()) reached.insert(e.function.get());
  }
  return reached;
}

}  // namespace

void AccumulateNow(autograd::Node& node, autograd::variable_list gradients) {
  const std::unordered_set<const autograd::Node*> later = ReachedLater(node);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const autograd::Edge& e = node.next_edge(i);
    if (!gradients[i].defined() || !e.is_valid() || !IsLeaf(e.function.get()) || later.contains(e.function.get())) {
      continue;
    }
    autograd::variable_list gradient{std::move(gradients[i])};
    for (const auto& hook : e.function->tensor_pre_hooks()) gradient = (*hook)(gradient);
    for (const auto& hook : e.function->pre_hooks()) gradient = (*hook)(gradient);
    (*e.function)(std::move(gradient));
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
