#include "backends/runtime/leaf_turns.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "backends/runtime/autograd_node.h"
#include "common/index.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

class LeafTurn final : public autograd::Node {
 public:
  explicit LeafTurn(autograd::edge_list edges) : Node(std::move(edges)) {}
  std::string name() const override { return "FramefuseLeafTurn"; }

 private:
  autograd::variable_list apply(autograd::variable_list&& gradients) override { return std::move(gradients); }
};

}  // namespace

std::vector<at::Tensor> BehindNodesOfTheirOwn(at::TensorList tensors, absl::Span<const std::int64_t> turns) {
  std::vector<at::Tensor> behind(tensors.begin(), tensors.end());
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < behind.size() && i < turns.size(); ++i) {
    if (turns[i] >= 0 && behind[i].is_leaf() && behind[i].requires_grad()) leaves.push_back(i);
  }
  if (leaves.size() < 2) return behind;
  // The engine runs the latest made first.
  std::stable_sort(leaves.begin(), leaves.end(), [&](std::size_t a, std::size_t b) { return turns[a] > turns[b]; });
  for (const std::size_t i : leaves) {
    at::Tensor alias = behind[i].variable_data();
    autograd::set_history(alias,
                          MakeAutogradNode<LeafTurn>(autograd::edge_list{autograd::impl::gradient_edge(behind[i])}));
    behind[i] = std::move(alias);
  }
  return behind;
}

}  // namespace framefuse
