#include "backends/autograd/detached_results.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "backends/graph/input_writes.h"
#include "common/index.h"

namespace framefuse {
namespace {

namespace autograd = torch::autograd;

class MetaThatTells final : public autograd::AutogradMeta {
 public:
  MetaThatTells(const autograd::AutogradMeta& from, std::shared_ptr<std::atomic<bool>> died_detached)
      : died_detached_(std::move(died_detached)) {
    grad_fn_ = from.grad_fn_;
    output_nr_ = from.output_nr_;
    requires_grad_ = from.requires_grad_;
  }
  // Whether nothing else is there, as in what a graph has just made.
  static bool HasAllOf(const autograd::AutogradMeta& meta) {
    const bool is_seen = !meta.hooks_.empty() || meta.cpp_hooks_list_ != nullptr || meta.retains_grad_ ||
                         meta.post_acc_grad_hooks_ != nullptr;
    return !is_seen && meta.name_.empty() && !meta.grad_.defined() && meta.fw_grad_ == nullptr;
  }
  ~MetaThatTells() override {
    if (!grad_fn_) died_detached_->store(true);
  }
  MetaThatTells(const MetaThatTells&) = delete;
  MetaThatTells& operator=(const MetaThatTells&) = delete;

 private:
  std::shared_ptr<std::atomic<bool>> died_detached_;
};

bool Contains(const std::vector<std::int64_t>& turns, std::int64_t turn) {
  return std::find(turns.begin(), turns.end(), turn) != turns.end();
}

}  // namespace

std::string DetachedResults::Detached(std::size_t saved) const {
  std::string detached;
  for (const Watched& w : watched_) {
    if (!w.IsDetached()) continue;
    detached.resize(saved, '0');
    detached[w.saved] = '1';
  }
  return detached;
}

void DetachedResults::Watch(std::size_t saved, const at::Tensor& result) {
  c10::TensorImpl* const impl = result.unsafeGetTensorImpl();
  if (!result.grad_fn() || result.is_view()) return;  // detach_() refuses views
  const auto* const meta = static_cast<const autograd::AutogradMeta*>(impl->autograd_meta());
  auto died_detached = std::make_shared<std::atomic<bool>>(false);
  if (MetaThatTells::HasAllOf(*meta)) impl->set_autograd_meta(std::make_unique<MetaThatTells>(*meta, died_detached));
  watched_.push_back({saved, WeakTensor(result.getIntrusivePtr()), std::move(died_detached), at::Tensor()});
}

void DetachedResults::WatchInput(std::size_t saved, const at::Tensor& input) {
  if (!input.grad_fn() || input.is_view()) return;
  watched_.push_back({saved, WeakTensor(input.getIntrusivePtr()), nullptr, input});
}

void DetachedResults::Forget(std::size_t saved) {
  for (Watched& w : watched_) {
    if (w.saved == saved) w.input = at::Tensor();
  }
}

bool DetachedResults::Watched::IsDetached() const {
  if (died_detached == nullptr) return input.defined() && !input.grad_fn();
  auto impl = result.lock();
  if (!impl) return died_detached->load();
  return !at::Tensor(std::move(impl)).grad_fn();
}

bool DetachedResults::IsRefused(const BackwardPlan& plan, std::size_t saved, std::int32_t reader) const {
  const auto is_it = [&](const Watched& w) { return w.saved == saved && w.IsDetached(); };
  if (std::none_of(watched_.begin(), watched_.end(), is_it)) return false;
  const std::int64_t turn = plan.graph().nodes[At(reader)].sequence;
  return Contains(plan.saved()[saved].saved_by, turn) && !Contains(ir::TurnsOfFunctions(plan.joint()), turn);
}

ir::NodeIndex DetachedResults::FirstRefusing(const BackwardPlan& plan, const std::vector<std::int32_t>& readers) const {
  ir::NodeIndex first = ir::kNoNode;
  for (const Watched& w : watched_) {
    const auto refuses = [&](std::int32_t n) { return IsRefused(plan, w.saved, n); };
    const auto n = w.IsDetached() ? std::find_if(readers.begin(), readers.end(), refuses) : readers.end();
    if (n == readers.end()) continue;
    const ir::NodeIndex node = plan.FirstOfTurn(*n);
    if (first == ir::kNoNode || node < first) first = node;
  }
  return first;
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
