// pass_walk: the backward pass under way on this thread, as eager would run it. The engine takes all edges of a node.
// Of a graph's node eager takes those that the inputs it comes by lead to.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_PASS_WALK_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_PASS_WALK_H_

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/functional/function_ref.h"
#include "backends/autograd/end_of_backward.h"

namespace framefuse {

torch::autograd::GraphTask* PassUnderWay();  // null: none
bool IsLeaf(const torch::autograd::Node* node);

// A node that a pass comes to. Only a graph's node tells its inputs apart: of others it is 0.
struct PlaceInPass {
  const torch::autograd::Node* node;
  std::size_t input;
  friend auto operator<=>(const PlaceInPass&, const PlaceInPass&) = default;
};
// Each step of the pass, once.
void EagerWalk(const torch::autograd::GraphTask& pass,
               absl::FunctionRef<void(const PlaceInPass& from, const PlaceInPass& to)> step);

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

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_PASS_WALK_H_
