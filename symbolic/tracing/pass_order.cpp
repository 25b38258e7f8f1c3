#include "symbolic/tracing/pass_order.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "backends/graph/grad_fn_name.h"
#include "symbolic/tracing/output_aliases.h"

namespace framefuse::tracing {
namespace {

using torch::autograd::Node;

class Pass {
 public:
  Pass(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
       const std::vector<at::Tensor>& views)
      : outputs_(outputs), views_(views), roots_(outputs), input_count_(inputs.size()) {
    roots_.insert(roots_.end(), views.begin(), views.end());
    input_of_.reserve(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      input_of_.emplace(torch::autograd::impl::gradient_edge(inputs[i]).function.get(), i);
    }
  }

  PassOrder Run() {
    for (const at::Tensor& t : roots_) Visit(t.grad_fn().get());
    RunHeap();
    SortNodes();
    SpreadOutputs();
    return Number();
  }

 private:
  struct Facts {
    int waits_for = 0;          // edges that lead here
    std::uint64_t outputs = 0;  // that lead here, one bit each; the last one stands for all further ones
  };

  static std::uint64_t BitOf(std::size_t output) { return std::uint64_t{1} << std::min<std::size_t>(output, 63); }
  bool IsInput(Node* n) const { return input_of_.contains(n); }

  void Visit(Node* from) {
    if (from == nullptr || !facts_.try_emplace(from).second) return;
    std::vector<Node*> open = {from};
    while (!open.empty()) {
      Node* n = open.back();
      open.pop_back();
      if (IsInput(n)) continue;
      nodes_.push_back(n);
      for (const torch::autograd::Edge& e : n->next_edges()) {
        if (!e.is_valid()) continue;
        auto [it, is_new] = facts_.try_emplace(e.function.get());
        ++it->second.waits_for;
        if (is_new) open.push_back(e.function.get());
      }
    }
  }

  void RunHeap() {
    constexpr auto kBefore = [](const Node* a, const Node* b) { return a->sequence_nr() < b->sequence_nr(); };
    std::priority_queue<Node*, std::vector<Node*>, decltype(kBefore)> ready(kBefore);
    absl::flat_hash_map<Node*, int> waits;
    for (const auto& [n, facts] : facts_) waits[n] = facts.waits_for;
    for (const at::Tensor& t : roots_) {
      Node* n = t.grad_fn().get();
      if (n != nullptr && waits[n] == 0 && !popped_.contains(n)) ready.push(n), popped_[n] = -1;
    }
    for (int turn = 0; !ready.empty(); ++turn) {
      Node* n = ready.top();
      ready.pop();
      popped_[n] = turn;
      if (IsInput(n)) continue;
      for (const torch::autograd::Edge& e : n->next_edges()) {
        if (!e.is_valid() || --waits[e.function.get()] != 0) continue;
        ready.push(e.function.get());
        released_by_[e.function.get()] = n;
      }
    }
  }

  // By age, youngest first, as any pass runs them; but none before one that leads to it. A view whose base was written
  // gets a new history when it is asked for it, which is younger than the operator that asked.
  void SortNodes() {
    std::stable_sort(nodes_.begin(), nodes_.end(), [&](Node* a, Node* b) { return popped_[a] < popped_[b]; });
    absl::flat_hash_map<Node*, std::uint64_t> age;
    for (Node* n : nodes_) {
      const std::uint64_t mine = age.try_emplace(n, n->sequence_nr()).first->second;
      for (const torch::autograd::Edge& e : n->next_edges()) {
        if (!e.is_valid()) continue;
        std::uint64_t& next = age.try_emplace(e.function.get(), e.function->sequence_nr()).first->second;
        next = std::min(next, mine);
      }
    }
    std::stable_sort(nodes_.begin(), nodes_.end(), [&](Node* a, Node* b) { return age[a] > age[b]; });
  }

  void SpreadOutputs() {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (Node* n = outputs_[o].grad_fn().get(); n != nullptr) facts_[n].outputs |= BitOf(o);
    }
    for (Node* n : nodes_) {
      const std::uint64_t mine = facts_[n].outputs;
      for (const torch::autograd::Edge& e : n->next_edges()) {
        if (e.is_valid()) facts_[e.function.get()].outputs |= mine;
      }
    }
  }

  // The inputs that `n` leads to, in the order in which they would leave the heap right after it.
  std::vector<Node*> InputsAfter(Node* n) {
    std::vector<Node*> inputs;
    for (const torch::autograd::Edge& e : n->next_edges()) {
      if (e.is_valid() && IsInput(e.function.get())) inputs.push_back(e.function.get());
    }
    const auto follows = [&](Node* i) { return released_by_[i] == n; };
    std::vector<Node*> following;
    for (Node* i : inputs) {
      if (follows(i)) following.push_back(i);
    }
    std::stable_sort(following.begin(), following.end(), [&](Node* a, Node* b) { return popped_[a] < popped_[b]; });
    absl::flat_hash_map<Node*, std::int64_t> within;  // several of eager's nodes: it comes where the last one is done
    const std::vector<std::int64_t> order = ir::OrderOfEdges(*n);
    for (std::size_t e = 0; e < order.size(); ++e) {
      std::int64_t& last = within.try_emplace(n->next_edge(e).function.get(), -1).first->second;
      last = std::max(last, order[e]);
    }
    std::stable_sort(following.begin(), following.end(), [&](Node* a, Node* b) { return within[a] < within[b]; });
    std::size_t k = 0;
    for (Node*& i : inputs) i = follows(i) ? following[k++] : i;
    return inputs;
  }

  PassOrder Number() {
    PassOrder order;
    order.inputs.assign(input_count_, std::vector<std::int32_t>(outputs_.size(), -1));
    absl::flat_hash_map<Node*, std::int32_t> rank;
    std::int32_t turn = 0;
    for (Node* n : nodes_) {
      order.nodes.emplace(static_cast<std::int64_t>(n->sequence_nr()), turn);
      if (IsOfFunction(*n)) order.functions.push_back(turn);
      rank[n] = turn++;
      for (Node* i : InputsAfter(n)) {
        for (std::size_t o = 0; o < outputs_.size(); ++o) {
          if ((facts_[n].outputs & BitOf(o)) != 0) order.inputs[input_of_[i]][o] = turn;
        }
        ++turn;
      }
    }
    const auto rank_of = [&rank](const at::Tensor& t) {
      const auto it = rank.find(t.grad_fn().get());
      return it == rank.end() ? -1 : it->second;
    };
    for (const at::Tensor& t : outputs_) order.outputs.push_back(rank_of(t));
    for (const at::Tensor& t : views_) order.views.push_back(rank_of(t));
    return order;
  }

  const std::vector<at::Tensor>& outputs_;
  const std::vector<at::Tensor>& views_;
  std::vector<at::Tensor> roots_;
  std::size_t input_count_;
  absl::flat_hash_map<Node*, std::size_t> input_of_;
  absl::flat_hash_map<Node*, Facts> facts_;
  std::vector<Node*> nodes_;                       // without inputs
  absl::flat_hash_map<Node*, int> popped_;         // when it left the heap
  absl::flat_hash_map<Node*, Node*> released_by_;  // the last of those that lead to it
};

}  // namespace

std::vector<bool> AreReached(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& tensors) {
  absl::flat_hash_set<Node*> reached;
  std::vector<Node*> open;
  for (const at::Tensor& t : outputs) {
    if (t.grad_fn() != nullptr) open.push_back(t.grad_fn().get());
  }
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& e : n->next_edges()) {
      if (e.is_valid() && reached.insert(e.function.get()).second) open.push_back(e.function.get());
    }
  }
  std::vector<bool> result;
  result.reserve(tensors.size());
  for (const at::Tensor& t : tensors) result.push_back(reached.contains(t.grad_fn().get()));
  return result;
}

std::vector<at::Tensor> OtherLeavesOf(const at::Tensor& output, const std::vector<at::Tensor>& inputs) {
  absl::flat_hash_set<Node*> seen, wanted;
  for (const at::Tensor& t : inputs) wanted.insert(torch::autograd::impl::gradient_edge(t).function.get());
  std::vector<Node*> open = {output.grad_fn().get()};
  std::vector<at::Tensor> others;
  while (!open.empty()) {
    Node* n = open.back();
    open.pop_back();
    if (n == nullptr || !seen.insert(n).second) continue;
    if (wanted.contains(n)) return {};
    const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(n);
    if (leaf != nullptr) others.push_back(leaf->variable);
    for (const torch::autograd::Edge& e : n->next_edges()) open.push_back(e.function.get());
  }
  return others;
}

PassOrder OrderOfPass(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& views) {
  return Pass(outputs, inputs, views).Run();
}

void GiveTurns(const PassOrder& order, const std::vector<std::size_t>& outputs, const std::vector<std::size_t>& views,
               ir::Graph& graph) {
  for (ir::Node& n : graph.nodes) {
    if (n.phase != ir::Phase::kBackward) continue;
    const auto it = order.nodes.find(n.sequence);
    n.sequence = it == order.nodes.end() ? -1 : it->second;
  }
  const bool any_order = outputs.size() + views.size() > 1 || !order.functions.empty();
  for (std::size_t k = 0; k < outputs.size() && any_order; ++k) {
    std::vector<std::int32_t>& turns = graph.outputs[outputs[k]].turns;
    turns = {order.outputs[k]};
    turns.insert(turns.end(), order.functions.begin(), order.functions.end());
  }
  for (std::size_t k = 0; k < views.size(); ++k) graph.outputs[views[k]].turns = {order.views[k]};
}

}  // namespace framefuse::tracing
