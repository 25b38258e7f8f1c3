#include "backends/autograd/dead_edges.h"

#include <torch/csrc/autograd/graph_task.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/autograd/compiled_backward.h"
#include "backends/autograd/end_of_backward.h"
#include "backends/autograd/leaf_order.h"
#include "backends/autograd/output_gate.h"
#include "backends/autograd/pass_walk.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;
using NodePtr = decltype(autograd::Edge::function);

// The leaves behind the edges of each graph's node that are off the counts, once for each edge.
using Forgotten = std::unordered_map<const autograd::Node*, std::vector<autograd::Node*>>;

struct Passes {
  std::mutex mutex;
  std::map<int, Forgotten> forgotten;  // by pass
};

Passes& ThePasses() {
  static auto* passes = new Passes;  // lasts
  return *passes;
}

// The graphs' nodes that tell their outputs apart, with those of their inputs that the pass comes by.
std::unordered_map<const CompiledBackward*, std::vector<std::size_t>> InputsInPass(const autograd::GraphTask& pass) {
  std::unordered_map<const CompiledBackward*, std::vector<std::size_t>> inputs;
  const auto look = [&](const autograd::Node* node) {
    if (typeid(*node) != typeid(OutputGate)) return;
    const autograd::Edge& whole = node->next_edge(0);
    const CompiledBackward* graph = CompiledBackward::From(whole.function);
    if (graph->ReachesApart()) inputs[graph].push_back(whole.input_nr);
  };
  for (const autograd::Node* node : pass.nodes_in_graph_) look(node);
  for (const autograd::Node* root : pass.graph_roots_) look(root);
  return inputs;
}

// In a pass for some inputs other nodes are not run, and their edges not counted down.
bool IsRun(const autograd::GraphTask& pass, const autograd::Node* node) {
  if (pass.exec_info_.empty()) return true;
  const auto it = pass.exec_info_.find(const_cast<autograd::Node*>(node));
  return it != pass.exec_info_.end() && it->second.needed_;
}

// By leaf the nodes that have a dead edge to it.
using DeadEdges = std::unordered_map<NodePtr, std::vector<const autograd::Node*>>;

DeadEdges FindDeadEdges(const autograd::GraphTask& pass) {
  DeadEdges dead;
  for (const auto& [graph, inputs] : InputsInPass(pass)) {
    if (!IsRun(pass, graph)) continue;
    for (std::size_t edge = 0; edge < graph->num_outputs(); ++edge) {
      const NodePtr& leaf = graph->next_edge(edge).function;
      if (!leaf || !IsLeaf(leaf.get()) || !RunsInPass(*leaf)) continue;
      bool reached = false;
      for (std::size_t input : inputs) reached = reached || graph->Reaches(edge, input);
      if (!reached) dead[leaf].push_back(graph);
    }
  }
  return dead;
}

}  // namespace

void ForgetDeadEdges(autograd::Node& node) {
  if (!CompiledBackward::AnyReachesApart()) return;
  autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return;
  const int id = autograd::get_current_graph_task_id();
  Passes& passes = ThePasses();
  std::vector<NodePtr> complete;
  {
    std::lock_guard lock(passes.mutex);  // of several devices' nodes one is the first
    const auto [it, is_first] = passes.forgotten.try_emplace(id);
    if (!is_first) return;
    std::lock_guard pass_lock(pass->mutex_);
    for (const auto& [leaf, graphs] : FindDeadEdges(*pass)) {
      const auto count = pass->dependencies_.find(leaf.get());
      if (count == pass->dependencies_.end()) continue;
      const int dead = static_cast<int>(graphs.size());
      if (count->second <= dead) {  // only the engine could start it
        complete.push_back(leaf);
        continue;
      }
      count->second -= dead;
      for (const autograd::Node* graph : graphs) it->second[graph].push_back(leaf.get());
    }
  }
  AtEndOfBackward([id] {
    std::lock_guard lock(ThePasses().mutex);
    ThePasses().forgotten.erase(id);
  });
  for (const NodePtr& leaf : complete) AccumulatePending(node, *leaf);
}

void RecallDeadEdges(const autograd::Node& node) {
  autograd::GraphTask* pass = PassUnderWay();
  if (pass == nullptr) return;
  Passes& passes = ThePasses();
  std::lock_guard lock(passes.mutex);
  const auto in_pass = passes.forgotten.find(autograd::get_current_graph_task_id());
  if (in_pass == passes.forgotten.end()) return;
  const auto leaves = in_pass->second.find(&node);
  if (leaves == in_pass->second.end()) return;
  std::lock_guard pass_lock(pass->mutex_);
  for (autograd::Node* leaf : leaves->second) ++pass->dependencies_[leaf];
  in_pass->second.erase(leaves);
}

}  // namespace framefuse
