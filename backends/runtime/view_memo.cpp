#include "backends/runtime/view_memo.h"

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>

#include "backends/graph/operators.h"

namespace framefuse {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

bool HasOnly(DispatchKeySet keys, DispatchKeySet allowed) { return (keys.raw_repr() & ~allowed.raw_repr()) == 0; }

// Tensors whose views are an offset, sizes and strides, and nothing else.
bool IsPlain(const at::Tensor& t) {
  static const DispatchKeySet kPlain({DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::AutogradCPU,
                                      DispatchKey::AutogradCUDA, DispatchKey::ADInplaceOrView, DispatchKey::AutocastCPU,
                                      DispatchKey::AutocastCUDA});
  return t.defined() && HasOnly(t.key_set(), kPlain) && !t.unsafeGetTensorImpl()->is_python_dispatch();
}

}  // namespace

struct ViewMemo::Geometry {
  c10::SmallVector<std::int64_t, 6> from_sizes, from_strides, sizes, strides;
  std::int64_t offset = 0;  // beyond the tensor's own
};

ViewMemo::~ViewMemo() { delete seen_.load(); }

bool ViewMemo::Serves(const ir::Node& n) {
  using enum ir::OpName;
  static constexpr ir::OpNames kPlainViews{kView,    k_UnsafeView, kTransposeInt, kT,          kUnsqueeze,  kExpand,
                                           kPermute, kSliceTensor, kSelectInt,    kSqueezeDim, kSqueezeDims};
  if (!kPlainViews.contains(n.op) || n.outputs.size() != 1 || n.args[0].kind != ir::Arg::Kind::kValue) return false;
  for (std::size_t a = 1; a < n.args.size(); ++a) {
    if (n.args[a].kind != ir::Arg::Kind::kConstant && n.args[a].kind != ir::Arg::Kind::kNone) return false;
  }
  return true;
}

bool ViewMemo::MayAnswer() {
  static const DispatchKeySet kUsual({DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView});
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  return HasOnly(local.included_, kUsual) && local.excluded_.has(DispatchKey::ADInplaceOrView);
}

at::Tensor ViewMemo::View(const at::Tensor& self) const {
  const Geometry* g = seen_.load(std::memory_order_acquire);
  if (g == nullptr || !IsPlain(self) || self.sizes() != g->from_sizes || self.strides() != g->from_strides) return {};
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                             self.key_set(), self.dtype());
  c10::TensorImpl* impl = view.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(g->sizes, g->strides, self.storage_offset() + g->offset);
  return view;
}

void ViewMemo::Learn(const at::Tensor& self, const at::Tensor& view) const {
  if (!IsPlain(self) || !IsPlain(view) || !view.is_alias_of(self) || self.dtype() != view.dtype()) return;
  auto made = std::make_unique<Geometry>();
  made->from_sizes = self.sizes();
  made->from_strides = self.strides();
  made->sizes = view.sizes();
  made->strides = view.strides();
  made->offset = view.storage_offset() - self.storage_offset();
  const Geometry* none = nullptr;
  if (seen_.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) made.release();
}

}  // namespace framefuse
