// ViewMemo: what a view operator with constant arguments makes of a tensor depends on the tensor's sizes and strides
// only. The first call's answer is kept, and given again for equal ones without the dispatcher, which takes several
// times as long; a model of transformers has hundreds of views.
// Invariant: thread-safe; it answers only below ADInplaceOrView and for plain tensors, where the operator's own kernel
// would do the same.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_VIEW_MEMO_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_VIEW_MEMO_H_

#include <ATen/core/Tensor.h>

#include <atomic>

#include "backends/graph/graph.h"

namespace framefuse {

class ViewMemo {
 public:
  ViewMemo() = default;
  ~ViewMemo();
  ViewMemo(const ViewMemo&) = delete;
  ViewMemo& operator=(const ViewMemo&) = delete;

  // A view of the first argument, the others constants.
  static bool Serves(const ir::Node& node);
  // Whether operators on plain tensors go straight to their kernels in this thread now.
  static bool MayAnswer();

  // Undefined if it does not know.
  at::Tensor View(const at::Tensor& self) const;
  void Learn(const at::Tensor& self, const at::Tensor& view) const;

 private:
  struct Geometry;
  mutable std::atomic<const Geometry*> seen_ = nullptr;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_VIEW_MEMO_H_
