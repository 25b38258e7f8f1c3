#include "backends/autograd/written_inputs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <map>
#include <utility>

#include "backends/autograd/compiled_backward.h"
#include "common/config.h"
#include "common/index.h"

namespace framefuse {
namespace {

bool HasHistory(const at::Tensor& input, const at::Tensor& output) {
  return torch::autograd::compute_requires_grad(input, output) &&
         torch::autograd::isDifferentiableType(input.scalar_type());
}

// One kernel takes tensors of one type and device, each laid out as what is copied to it.
bool CanBeCopiedWithOthers(const Mutation& m, const at::Tensor& input, const at::Tensor& output) {
  const bool unseen = m.without_grad || !HasHistory(input, output);
  if (!unseen || input.is_same(output) || input.layout() != c10::kStrided) return false;
  if (input.is_cpu() && !config().rewrite_always) return false;
  return input.scalar_type() == output.scalar_type() && input.device() == output.device() &&
         input.sizes() == output.sizes() && input.strides() == output.strides() && input.is_non_overlapping_and_dense();
}

// A copy_() whose node has another name.
struct NamedWrite final : torch::autograd::CopyBackwards {
  explicit NamedWrite(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }

 private:
  std::string name_;
};

// As torch's copy_() does.
void CopyWithHistory(const at::Tensor& input, const at::Tensor& output, const std::string& name) {
  torch::autograd::check_inplace(input, /*requires_grad=*/true);
  auto node = MakeAutogradNode<NamedWrite>(name);
  node->set_next_edges(torch::autograd::collect_next_edges(input, output));
  static_cast<NamedWrite&>(*node).src_options = output.options();
  {
    const at::AutoDispatchBelowAutograd below;
    input.copy_(output);
  }
  torch::autograd::rebase_history(input, std::move(node));
}

}  // namespace

void WriteBack(const Mutation& mutation, const at::Tensor& input, const at::Tensor& output) {
  if (output.is_same(input)) {
    if (!mutation.uncounted) torch::autograd::impl::bump_version(input);
    return;
  }
  at::AutoGradMode mode(at::GradMode::is_enabled() && !mutation.without_grad);
  if (!mutation.uncounted && !mutation.grad_fn.empty() && HasHistory(input, output)) {
    CopyWithHistory(input, output, mutation.grad_fn);
  } else {
    (mutation.uncounted ? input.variable_data() : input).copy_(output);
  }
}

void WriteBackTogether(absl::Span<const Mutation> mutations, absl::Span<const at::Tensor> inputs,
                       absl::Span<const at::Tensor> outputs, absl::Span<bool> written) {
  std::map<c10::ScalarType, std::vector<std::size_t>> of_type;
  for (std::size_t m = 0; m < mutations.size(); ++m) {
    const at::Tensor &input = inputs[At(mutations[m].input)], &output = outputs[At(mutations[m].output)];
    if (!written[m] && CanBeCopiedWithOthers(mutations[m], input, output)) of_type[input.scalar_type()].push_back(m);
  }
  for (const auto& [type, members] : of_type) {
    if (members.size() < 2) continue;
    std::vector<at::Tensor> to, from;
    for (const std::size_t m : members) {
      const at::Tensor& input = inputs[At(mutations[m].input)];
      to.push_back(mutations[m].uncounted ? input.variable_data() : input);
      from.push_back(outputs[At(mutations[m].output)]);
      written[m] = true;
    }
    at::AutoGradMode mode(false);
    at::_foreach_copy_(to, from);
  }
}

}  // namespace framefuse
