#include "backends/autograd/pass_walk.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <set>
#include <unordered_set>
#include <vector>

#include "backends/autograd/compiled_backward.h"

namespace framefuse {

namespace autograd = torch::autograd;

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

bool IsLeaf(const autograd::Node* node) { return dynamic_cast<const autograd::AccumulateGrad*>(node) != nullptr; }

void EagerWalk(const autograd::GraphTask& pass, absl::FunctionRef<void(const PlaceInPass&, const PlaceInPass&)> step) {
  std::set<PlaceInPass> come;
  std::vector<PlaceInPass> open;
  const auto place = [](const autograd::Node* node, std::size_t input) {
    return PlaceInPass{node, dynamic_cast<const CompiledBackward*>(node) == nullptr ? 0 : input};
  };
  const auto come_to = [&](const PlaceInPass& p) {
    if (come.insert(p).second) open.push_back(p);
  };
  for (const autograd::Node* root : pass.graph_roots_) {
    for (std::size_t i = 0; i < root->num_inputs(); ++i) come_to(place(root, i));
  }
  while (!open.empty()) {
    const PlaceInPass from = open.back();
    open.pop_back();
    const auto* graph = dynamic_cast<const CompiledBackward*>(from.node);
    for (std::size_t i = 0; i < from.node->num_outputs(); ++i) {
      const autograd::Edge& e = from.node->next_edge(i);
      if (!e.is_valid() || (graph != nullptr && !graph->Reaches(i, from.input))) continue;
      const PlaceInPass to = place(e.function.get(), e.input_nr);
      step(from, to);
      come_to(to);
    }
  }
}

}  // namespace framefuse
