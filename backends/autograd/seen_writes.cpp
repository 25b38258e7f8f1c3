#include "backends/autograd/seen_writes.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "backends/autograd/output_gate.h"
#include "backends/runtime/autograd_node.h"

namespace framefuse {

namespace autograd = torch::autograd;

void SeenWrites::Add(std::int32_t input, const at::Tensor& written, const autograd::Edge& edge) {
  has_views_ = has_views_ || written.is_view();
  if (!edge.is_valid()) return;
  writes_.push_back({input, WeakNode(edge.function), edge.input_nr, std::nullopt});
  if (!written.is_view()) return;
  const at::Tensor whole(written._base());
  writes_.back().whole.emplace(autograd::impl::gradient_edge(whole).function);
}

bool SeenWrites::Write::Is(absl::FunctionRef<bool(autograd::Node&)> seen) const {
  const auto own = node.lock();
  if (!own) return false;
  const auto of_whole = whole.has_value() ? whole->lock() : AutogradNodePtr();
  return seen(*own) || (of_whole && seen(*of_whole));
}

bool SeenWrites::IsSeen(autograd::Node& node) const {
  return OutputGate::IsSeen(node) || std::any_of(writes_.begin(), writes_.end(), [&node](const Write& w) {
           return w.node.lock().get() == &node && w.Is(&OutputGate::IsSeen);
         });
}

}  // namespace framefuse
