// pass_under_way: the backward pass under way on this thread.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_PASS_UNDER_WAY_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_PASS_UNDER_WAY_H_

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <map>
#include <memory>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "backends/autograd/end_of_backward.h"

namespace framefuse {

torch::autograd::GraphTask* PassUnderWay();  // null: none
bool IsLeaf(const torch::autograd::Node* node);

// In a pass for some inputs other nodes are not run.
bool IsRun(const torch::autograd::GraphTask& pass, const torch::autograd::Node* node);

// What is found once in each pass and kept as long as it lasts.
template <typename T>
class PerPass {
 public:
  std::shared_ptr<const T> Get(absl::FunctionRef<T()> find) {
    const int pass = torch::autograd::get_current_graph_task_id();
    {
      std::lock_guard lock(mutex_);
      if (const auto it = found_.find(pass); it != found_.end()) return it->second;
    }
    auto found = std::make_shared<const T>(find());
    {
      std::lock_guard lock(mutex_);
      found_.emplace(pass, found);
    }
    AtEndOfBackward([this, pass] {
      std::lock_guard lock(mutex_);
      found_.erase(pass);
    });
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const T>> found_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_PASS_UNDER_WAY_H_
