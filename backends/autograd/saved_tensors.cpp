#include "backends/autograd/saved_tensors.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "backends/autograd/end_of_backward.h"

namespace framefuse {

at::Tensor SavedTensors::Unpack(std::size_t i, const AutogradNodePtr& node, bool again) const {
  const int pass = torch::autograd::get_current_graph_task_id();
  if (!again || pass < 0 || !saved_[i].has_hooks()) return saved_[i].unpack(node);
  {
    const std::lock_guard lock(given_->mutex);
    const auto [it, is_first] = given_->by_pass.try_emplace(pass);
    if (const auto found = it->second.find(i); found != it->second.end()) return found->second;
    if (is_first) {
      AtEndOfBackward([given = given_, pass] {
        std::map<std::size_t, at::Tensor> dying;
        const std::lock_guard end(given->mutex);
        dying.swap(given->by_pass[pass]);
        given->by_pass.erase(pass);
      });
    }
  }
  at::Tensor t = saved_[i].unpack(node);  // may run the program again
  const std::lock_guard lock(given_->mutex);
  given_->by_pass[pass][i] = t;
  return t;
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
