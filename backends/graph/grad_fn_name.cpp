#include "backends/graph/grad_fn_name.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/strings/match.h"

namespace framefuse::ir {
namespace {
GradFnNames names_of_ours = nullptr;
EdgeOrders orders_of_ours = nullptr;
}  // namespace

std::string GradFnNameOf(const at::Tensor& t) {
  if (t.is_leaf()) return "";
  try {
    const torch::autograd::Node& node = *t.grad_fn();
    std::string name = node.name();
    if (!absl::StrContains(name, "framefuse::")) return name;
    return names_of_ours == nullptr ? "" : names_of_ours(node, static_cast<std::uint32_t>(t.output_nr()));
  } catch (const c10::Error&) {  // a view that has none since others were written
    return "";
  }
}

void NameGradFnsBy(GradFnNames names) { names_of_ours = names; }

std::vector<std::int64_t> OrderOfEdges(const torch::autograd::Node& node) {
  return orders_of_ours == nullptr ? std::vector<std::int64_t>() : orders_of_ours(node);
}

void OrderEdgesBy(EdgeOrders orders) { orders_of_ours = orders; }

}  // namespace framefuse::ir
