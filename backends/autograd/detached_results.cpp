#include "backends/autograd/detached_results.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

class MetaThatTells final : public autograd::AutogradMeta {
 public:
  MetaThatTells(const autograd::AutogradMeta& from, std::shared_ptr<std::atomic<bool>> died_detached)
      : died_detached_(std::move(died_detached)) {
    grad_fn_ = from.grad_fn_;
    output_nr_ = from.output_nr_;
  }
  ~MetaThatTells() override {
    if (!grad_fn_) died_detached_->store(true);
  }
  MetaThatTells(const MetaThatTells&) = delete;
  MetaThatTells& operator=(const MetaThatTells&) = delete;

 private:
  std::shared_ptr<std::atomic<bool>> died_detached_;
};

}  // namespace

void DetachedResults::Watch(std::size_t saved, const at::Tensor& result) {
  c10::TensorImpl* const impl = result.unsafeGetTensorImpl();
  const auto* const meta = static_cast<const autograd::AutogradMeta*>(impl->autograd_meta());
  auto died_detached = std::make_shared<std::atomic<bool>>(false);
  impl->set_autograd_meta(std::make_unique<MetaThatTells>(*meta, died_detached));
  watched_.push_back({saved,
                      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(result.getIntrusivePtr()),
                      std::move(died_detached)});
}

bool DetachedResults::Watched::IsDetached() const {
  auto impl = result.lock();
  if (!impl) return died_detached->load();
  return !at::Tensor(std::move(impl)).grad_fn();
}

std::vector<std::size_t> DetachedResults::Find() const {
  std::vector<std::size_t> found;
  for (const Watched& w : watched_) {
    if (w.IsDetached()) found.push_back(w.saved);
  }
  return found;
}

std::exception_ptr DetachedResults::Error() {
  try {
    TORCH_CHECK(false,
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
                "This is not supported, please use out-of-place `.detach()` instead");
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace framefuse
