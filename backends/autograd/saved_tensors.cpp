#include "backends/autograd/saved_tensors.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "backends/autograd/end_of_backward.h"

namespace framefuse {

at::Tensor SavedTensors::Unpack(std::size_t i, const AutogradNodePtr& node) const {
  const int pass = torch::autograd::get_current_graph_task_id();
  if (pass < 0 || !saved_[i].has_hooks()) return saved_[i].unpack(node);
  if (at::Tensor there = given_->Find(pass, i); there.defined()) return there;
  at::Tensor t = saved_[i].unpack(node);  // may run the program again
  const bool again = for_many_ || at::GradMode::is_enabled();
  if (again && given_->Add(pass, i, t)) AtEndOfBackward([given = given_, pass] { given->End(pass); });
  return t;
}

at::Tensor SavedTensors::Given::Find(int pass, std::size_t i) {
  const std::lock_guard lock(mutex);
  const auto tensors = by_pass.find(pass);
  if (tensors == by_pass.end()) return {};
  const auto found = tensors->second.find(i);
  return found == tensors->second.end() ? at::Tensor() : found->second;
}

bool SavedTensors::Given::Add(int pass, std::size_t i, const at::Tensor& t) {
  const std::lock_guard lock(mutex);
  const auto [tensors, is_first] = by_pass.try_emplace(pass);
  tensors->second[i] = t;
  return is_first;
}

void SavedTensors::Given::End(int pass) {
  std::map<std::size_t, at::Tensor> dying;  // behind the lock
  const std::lock_guard lock(mutex);
  dying.swap(by_pass[pass]);
  by_pass.erase(pass);
}

void SavedTensors::Drop(std::size_t i) {
  saved_[i].reset_data();
  std::vector<at::Tensor> dying;
  const std::lock_guard lock(given_->mutex);
  for (auto& [pass, tensors] : given_->by_pass) {
    const auto found = tensors.find(i);
    if (found == tensors.end()) continue;
    dying.push_back(std::move(found->second));
    tensors.erase(found);
  }
}

}  // namespace framefuse
