// SeenWrites: the histories that inputs have since the graph has written them. They lead to its run, and are watched
// there: a pass is cut at one where somebody sees what comes to it, or to the whole of which the input is a view.
// Invariant: no history is kept alive.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_SEEN_WRITES_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_SEEN_WRITES_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace framefuse {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
using WeakNode = std::weak_ptr<torch::autograd::Node>;
#else
using WeakNode = c10::weak_intrusive_ptr<torch::autograd::Node>;
#endif

class SeenWrites {
 public:
  struct Write {
    std::int32_t input = 0;
    WeakNode node;
    std::uint32_t input_nr = 0;
    std::optional<WeakNode> whole;  // of what a view is of, which has a node of the write's, too
    // Of the node, if it is there, or of the whole's.
    bool Is(absl::FunctionRef<bool(torch::autograd::Node&)> seen) const;
  };
  void Add(std::int32_t input, const at::Tensor& written, const torch::autograd::Edge& edge);
  const std::vector<Write>& all() const { return writes_; }
  bool HasViews() const { return has_views_; }
  // Whether somebody sees what comes to the written input with that node.
  bool IsSeen(torch::autograd::Node& node) const;

 private:
  std::vector<Write> writes_;
  bool has_views_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_SEEN_WRITES_H_
