#include "backends/autograd/unasked_nodes.h"

#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/autograd/pass_walk.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using Nodes = std::unordered_set<autograd::Node*>;

// torch.autograd.grad captures there, and backward(inputs=…) accumulates: into leaves, or it retains.
bool IsAskedFor(autograd::Node* node, const autograd::GraphTask::ExecInfo& info) {
  return info.captures_ != nullptr || (info.needed_ && (IsLeaf(node) || !node->retains_grad_hooks().empty()));
}

// Those that the engine takes for needed, and eager does not.
Nodes FindUnasked(autograd::GraphTask& pass) {
  std::map<PlaceInPass, std::vector<PlaceInPass>> led_from;
  std::set<PlaceInPass> places;
  EagerWalk(pass, [&](const PlaceInPass& from, const PlaceInPass& to) {
    led_from[to].push_back(from);
    places.insert({from, to});
  });
  std::set<PlaceInPass> asked;
  std::vector<PlaceInPass> open;
  Nodes unasked;
  for (const PlaceInPass& p : places) {
    auto* node = const_cast<autograd::Node*>(p.node);
    const auto info = pass.exec_info_.find(node);
    if (info == pass.exec_info_.end()) continue;
    if (IsAskedFor(node, info->second)) {
      asked.insert(p);
      open.push_back(p);
    } else if (info->second.needed_) {
      unasked.insert(node);
    }
  }
  while (!open.empty()) {
    const PlaceInPass to = open.back();
    open.pop_back();
    unasked.erase(const_cast<autograd::Node*>(to.node));
    for (const PlaceInPass& from : led_from[to]) {
      if (asked.insert(from).second) open.push_back(from);
    }
  }
  return unasked;
}

// False: left as it was.
bool PassOver(autograd::GraphTask& pass, Nodes unasked) {
  std::lock_guard lock(pass.mutex_);
  // What has no count is about to run, or has run.
  std::erase_if(unasked, [&](autograd::Node* node) { return !pass.dependencies_.contains(node); });
  std::unordered_map<autograd::Node*, int> fewer;
  for (autograd::Node* node : unasked) {
    for (const autograd::Edge& e : node->next_edges()) {
      if (!e.is_valid() || unasked.contains(e.function.get())) continue;
      const auto info = pass.exec_info_.find(e.function.get());
      if (info != pass.exec_info_.end() && info->second.should_execute()) ++fewer[e.function.get()];
    }
  }
  for (const auto& [node, count] : fewer) {
    const auto it = pass.dependencies_.find(node);
    // With none left it would have to run now, and only the engine can start it.
    if (it == pass.dependencies_.end() || it->second <= count) return false;
  }
  for (const auto& [node, count] : fewer) pass.dependencies_[node] -= count;
  for (autograd::Node* node : unasked) {
    pass.exec_info_[node].needed_ = false;
    pass.not_ready_.erase(node);
  }
  return true;
}

}  // namespace

void PassOverUnasked() {
  static auto* looked_at = new PerPass<bool>;  // lasts
  const auto* asked = autograd::get_current_graph_task_exec_info();
  if (asked == nullptr || asked->empty()) return;
  autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return;
  looked_at->Get([pass] {
    Nodes unasked = FindUnasked(*pass);
    return !unasked.empty() && PassOver(*pass, std::move(unasked));
  });
}

}  // namespace framefuse
