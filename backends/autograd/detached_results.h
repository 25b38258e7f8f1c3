// DetachedResults: which results and inputs of one run the program has detached in place since (y.detach_()). Eager's
// nodes that have saved such a result as their argument refuse it; the node that made it does not. A result, or an
// input that the graph has written, is not kept alive: it leads to the run. So its autograd meta tells when it dies
// whether it was detached.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_DETACHED_RESULTS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_DETACHED_RESULTS_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "backends/autograd/backward_plan.h"

namespace framefuse {

class DetachedResults {
 public:
  // Likewise for an input, which was saved itself: it is kept until Forget().
  void WatchInput(std::size_t saved, const at::Tensor& input);
  void Forget(std::size_t saved);
  // `result`: saved value `saved` as users see it. Nothing is to watch where it has no history, or is a view.
  void Watch(std::size_t saved, const at::Tensor& result);
  // The first node of eager's, of those that the readers are of, that refuses a result; kNoNode: none.
  ir::NodeIndex FirstRefusing(const BackwardPlan& plan, const std::vector<std::int32_t>& readers) const;
  // Whether a node of eager's refuses the saved value.
  bool IsRefused(const BackwardPlan& plan, std::size_t saved, std::int32_t reader) const;
  // One character for each of `saved` values, '1': its result was detached; empty: none was.
  std::string Detached(std::size_t saved) const;
  // As eager's SavedVariable raises.
  static std::exception_ptr Error();

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Watched {
    std::size_t saved = 0;
    WeakTensor result;
    std::shared_ptr<const std::atomic<bool>> died_detached;
    at::Tensor input{};
    bool IsDetached() const;
  };
  std::vector<Watched> watched_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_DETACHED_RESULTS_H_
