#include "backends/autograd/pass_under_way.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <cstddef>
#include <unordered_set>

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

bool IsRun(const autograd::GraphTask& pass, const autograd::Node* node) {
  if (pass.exec_info_.empty()) return true;
  const auto it = pass.exec_info_.find(const_cast<autograd::Node*>(node));
  return it != pass.exec_info_.end() && it->second.needed_;
}

}  // namespace framefuse
