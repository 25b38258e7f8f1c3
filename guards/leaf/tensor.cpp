#include "guards/leaf/tensor.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "c10/core/TensorImpl.h"
#include "common/own_hook.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

using torch::autograd::AutogradMeta;

// TensorImpl::autograd_meta_. Its accessor is a call into another library, which is a quarter of what a check costs; an
// explicit instantiation may name a private member.
using AutogradMetaMember = std::unique_ptr<c10::AutogradMetaInterface> c10::TensorImpl::*;
struct OfTensorImpl {
  friend constexpr AutogradMetaMember MemberFor(OfTensorImpl);
};
template <AutogradMetaMember kMember>
struct Named {
  friend constexpr AutogradMetaMember MemberFor(OfTensorImpl) { return kMember; }
};
template struct Named<&c10::TensorImpl::autograd_meta_>;

const AutogradMeta* MetaOf(const c10::TensorImpl& impl) {
  return static_cast<const AutogradMeta*>((impl.*MemberFor(OfTensorImpl())).get());
}

c10::TensorImpl* Impl(PyObject* object) { return THPVariable_Unpack(object).unsafeGetTensorImpl(); }

std::uint16_t PackDevice(c10::Device device) {
  return static_cast<std::uint16_t>(static_cast<std::uint8_t>(device.type()) << 8 |
                                    static_cast<std::uint8_t>(device.index()));
}

c10::Device UnpackDevice(std::uint16_t packed) {
  return {static_cast<c10::DeviceType>(packed >> 8), static_cast<c10::DeviceIndex>(packed & 0xff)};
}

// Strided, and nobody overrides sizes, strides or device: TensorImpl's own fields can be read.
bool HasDefaultPolicy(const c10::TensorImpl& impl) {
  return !impl.is_python_dispatch() && !impl.has_symbolic_sizes_strides() &&
         !impl.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::NestedTensor)) && impl.layout() == c10::kStrided;
}

struct GradState {
  bool requires_grad, is_leaf;
  bool is_renewed = false;
};

// A view requires grad where its base does, also one made without gradients. It has a function, too, if its base was
// written since: that is made when somebody asks, which may fail and so is left to who runs what was compiled.
GradState ReadGradOfView(c10::TensorImpl& impl, const AutogradMeta& meta) {
  if (meta.grad_fn_) return {true, false, true};
  const auto& view = static_cast<const torch::autograd::DifferentiableViewMeta&>(meta);
  if (!view.has_bw_view() || !view.get_backward_view().base_.requires_grad()) return {meta.requires_grad_, true};
  const bool has_older = !impl.is_inference() && view.get_attr_version() != impl.version_counter().current_version();
  return {true, !has_older, has_older};
}

inline GradState ReadGradState(c10::TensorImpl& impl, const AutogradMeta* meta) {
  if (meta == nullptr) return {false, true};
  if (__builtin_expect(meta->is_view_, 0)) return ReadGradOfView(impl, *meta);
  const bool has_function = meta->grad_fn_ != nullptr;
  return {has_function || meta->requires_grad_, !has_function};
}

GradState ReadGradState(c10::TensorImpl& impl) { return ReadGradState(impl, MetaOf(impl)); }

// On the nodes between a view and what it is one of: a write of the view drops them.
[[gnu::noinline]] bool HasHooksOfView(c10::TensorImpl& impl, const AutogradMeta& meta) {
  const auto& view = static_cast<const torch::autograd::DifferentiableViewMeta&>(meta);
  const bool is_old = !impl.is_inference() && view.get_attr_version() != impl.version_counter().current_version();
  if (is_old || !view.has_bw_view()) return false;
  const AutogradMeta* const base = MetaOf(*view.get_backward_view().base_.unsafeGetTensorImpl());
  const torch::autograd::Node* const end = base == nullptr ? nullptr : base->grad_fn_.get();
  torch::autograd::Node* node = meta.grad_fn_.get();
  while (node != nullptr && node != end && node->num_outputs() == 1) {
    if (HasHooksOfOthers(*node)) return true;
    node = node->next_edge(0).function.get();
  }
  return false;
}

inline bool HasHooks(c10::TensorImpl& impl, const AutogradMeta* meta) {
  if (meta == nullptr) return false;
  if (!meta->hooks_.empty() || meta->post_acc_grad_hooks_ != nullptr) return true;
  return meta->is_view_ && meta->grad_fn_ && HasHooksOfView(impl, *meta);
}

template <class A, class B>
std::string Mismatch(const char* what, const A& expected, const B& actual) {
  std::ostringstream text;
  text << what << " mismatch: expected " << expected << ", actual " << actual;
  return text.str();
}

bool IsFree(std::uint32_t mask, std::size_t dim) { return dim < 32 && (mask >> dim & 1) != 0; }

std::string ExplainList(const char* what, absl::Span<const std::int64_t> expected, c10::IntArrayRef actual,
                        std::uint32_t free) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i] || IsFree(free, i)) continue;
    std::ostringstream text;
    text << what << " mismatch at dim " << i << ": expected " << expected[i] << ", actual " << actual[i];
    return text.str();
  }
  return "";
}

std::string ListText(absl::Span<const std::int64_t> values, std::uint32_t free) {
  std::ostringstream text;
  text << '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    text << (i ? ", " : "") << (IsFree(free, i) ? "*" : std::to_string(values[i]));
  }
  text << ']';
  return text.str();
}

}  // namespace

absl::Span<const std::int64_t> TensorSpec::Sizes() const {
  const std::size_t n = dim < 0 ? 0 : static_cast<std::size_t>(dim);
  return {n <= kInlineDims ? sizes.data() : more.data(), n};
}

absl::Span<const std::int64_t> TensorSpec::Strides() const {
  const std::size_t n = dim < 0 ? 0 : static_cast<std::size_t>(dim);
  return {n <= kInlineDims ? strides.data() : more.data() + n, n};
}

bool IsTensor(BorrowedRef object) {
  return object && THPVariableClass != nullptr &&
         PyType_IsSubtype(object.type(), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool RecordTensor(BorrowedRef object, TensorSpec* spec) {
  if (!IsTensor(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object.get());
  if (!tensor.defined()) return false;
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  spec->type = object.type();
  spec->type_ref = RefOf<PyTypeObject>::Create(spec->type);
  spec->key_set = impl.key_set().raw_repr();
  spec->dtype = static_cast<std::uint16_t>(c10::typeMetaToScalarType(impl.dtype()));
  const GradState grad = ReadGradState(impl);
  spec->requires_grad = grad.requires_grad;
  spec->dim = -1;
  spec->packed = false;
  spec->more.clear();
  if (!HasDefaultPolicy(impl)) return true;
  spec->device = PackDevice(impl.device());
  spec->plain = true;
  const c10::IntArrayRef sizes = impl.sizes(), strides = impl.strides();
  spec->dim = static_cast<std::int16_t>(sizes.size());
  if (sizes.size() <= TensorSpec::kInlineDims) {
    std::copy(sizes.begin(), sizes.end(), spec->sizes.begin());
    std::copy(strides.begin(), strides.end(), spec->strides.begin());
    spec->packed = impl.is_contiguous() && std::all_of(sizes.begin(), sizes.end(), [](auto n) { return n > 1; });
  } else {
    spec->more.assign(sizes.begin(), sizes.end());
    spec->more.insert(spec->more.end(), strides.begin(), strides.end());
  }
  return true;
}

bool RecordOffset(BorrowedRef object, TensorSpec* spec) {
  if (!spec->plain || !IsTensor(object)) return false;
  spec->offset = Impl(object.get())->storage_offset();
  return true;
}

bool RecordStorage(BorrowedRef object, TensorSpec* spec) {
  if (!RecordOffset(object, spec) || !Impl(object.get())->has_storage()) return false;
  spec->storage = static_cast<std::int64_t>(Impl(object.get())->unsafe_storage().nbytes());
  return true;
}

bool RecordLeaf(BorrowedRef object, TensorSpec* spec) {
  if (!IsTensor(object)) return false;
  spec->compares_leaf = true;
  const GradState grad = ReadGradState(*Impl(object.get()));
  spec->is_leaf = grad.is_leaf;
  spec->history.is_renewed = grad.is_renewed;
  spec->history.has_hooks = HasHooks(*Impl(object.get()), MetaOf(*Impl(object.get())));
  return true;
}

// Out of line: hardly any tensor has attributes of its own.
[[gnu::noinline]] bool HidesClass(BorrowedRef object) noexcept {
  Py_ssize_t at = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (frame_ops::NextInstanceAttr(object, &at, &name, &value)) {
    if (frame_ops::TypeLookup(object.type(), name) != nullptr) return true;
  }
  return false;
}

bool RecordShownClass(BorrowedRef object, TensorSpec* spec) {
  spec->shows_class = !HidesClass(object);
  return spec->shows_class;
}

bool FreeSizes(TensorSpec* spec, std::uint32_t sizes, std::uint32_t strides) {
  constexpr int kBits = 32;
  if (!spec->plain || spec->dim > kBits) return false;
  spec->free_sizes |= sizes;
  spec->free_strides |= strides;
  spec->packed = false;
  return true;
}

std::int64_t SizeOf(BorrowedRef tensor, int dim) { return Impl(tensor.get())->sizes()[static_cast<std::size_t>(dim)]; }

std::int64_t StrideOf(BorrowedRef tensor, int dim) {
  return Impl(tensor.get())->strides()[static_cast<std::size_t>(dim)];
}

namespace {

inline bool CheckShape(const TensorSpec& spec, const c10::TensorImpl& impl) {
  const c10::IntArrayRef sizes = impl.sizes();
  const std::size_t n = sizes.size();
  if (n != static_cast<std::size_t>(spec.dim)) return false;
  if (__builtin_expect(spec.packed, 1)) {
    std::int64_t difference = 0;
    for (std::size_t i = 0; i < n; ++i) difference |= sizes[i] ^ spec.sizes[i];
    return difference == 0 && impl.is_contiguous();
  }
  const std::int64_t* strides = impl.strides().data();
  const std::int64_t* want_sizes = spec.sizes.data();
  const std::int64_t* want_strides = spec.strides.data();
  if (__builtin_expect(n > TensorSpec::kInlineDims, 0)) {
    want_sizes = spec.more.data();
    want_strides = want_sizes + n;
  }
  std::int64_t difference = 0;
  if (__builtin_expect((spec.free_sizes | spec.free_strides) != 0, 0)) {
    for (std::size_t i = 0; i < n; ++i) {
      if (!IsFree(spec.free_sizes, i)) difference |= sizes[i] ^ want_sizes[i];
      if (!IsFree(spec.free_strides, i)) difference |= strides[i] ^ want_strides[i];
    }
    return difference == 0;
  }
  for (std::size_t i = 0; i < n; ++i) difference |= (sizes[i] ^ want_sizes[i]) | (strides[i] ^ want_strides[i]);
  return difference == 0;
}

std::int64_t StorageBytes(const c10::TensorImpl& impl) {
  return impl.has_storage() ? static_cast<std::int64_t>(impl.unsafe_storage().nbytes()) : -1;
}

// `impl` is that of an object of the recorded type. The key set comes first: with the recorded one, the accessors that
// follow are plain field reads.
inline bool CheckImpl(const TensorSpec& spec, c10::TensorImpl& impl, const AutogradMeta* meta) {
  if (impl.key_set().raw_repr() != spec.key_set) return false;
  const GradState grad = ReadGradState(impl, meta);
  bool same = static_cast<std::uint16_t>(c10::typeMetaToScalarType(impl.dtype())) == spec.dtype;
  same = same & (grad.requires_grad == spec.requires_grad);
  if (spec.compares_leaf) {
    // What was captured of a view asks for no history that other tensors have not.
    same = same & (grad.is_leaf == spec.is_leaf) & (spec.history.is_renewed | !grad.is_renewed) &
           (HasHooks(impl, meta) == spec.history.has_hooks);
  }
  if (!same || !spec.plain) return same;
  return !impl.has_symbolic_sizes_strides() && PackDevice(impl.device()) == spec.device && CheckShape(spec, impl) &&
         (spec.offset < 0 || impl.storage_offset() == spec.offset) &&
         (spec.storage < 0 || StorageBytes(impl) == spec.storage);
}

}  // namespace

bool CheckTensor(const TensorSpec& spec, BorrowedRef object) noexcept {
  if (!object || object.type() != spec.type) return false;
  c10::TensorImpl* impl = Impl(object.get());
  return impl != nullptr && CheckImpl(spec, *impl, MetaOf(*impl)) && !(spec.shows_class && HidesClass(object));
}

// One flat loop: calls would take as long as the comparisons.
[[gnu::flatten]] bool CheckTensors(absl::Span<const TensorCheck> checks, PyObject* const* objects,
                                   TensorHint* hints) noexcept {
  constexpr std::size_t kAhead = 8;
  constexpr std::size_t kLine = 64;
  const std::size_t n = checks.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      const TensorHint& next = hints[i + kAhead];
      const char* impl_bytes = static_cast<const char*>(next.impl);
      __builtin_prefetch(objects[checks[i + kAhead].source]);
      for (std::size_t at = 0; at < sizeof(c10::TensorImpl); at += kLine) __builtin_prefetch(impl_bytes + at);
      if (const auto* meta = static_cast<const AutogradMeta*>(next.autograd)) {
        __builtin_prefetch(&meta->grad_fn_);
        __builtin_prefetch(&meta->requires_grad_);
      }
    }
    PyObject* object = objects[checks[i].source];
    const TensorSpec& spec = *checks[i].spec;
    if (object == nullptr || Py_TYPE(object) != spec.type) return false;
    c10::TensorImpl* impl = Impl(object);
    if (impl == nullptr) return false;
    const AutogradMeta* meta = MetaOf(*impl);
    hints[i] = {impl, meta};
    if (!CheckImpl(spec, *impl, meta)) return false;
    if (spec.shows_class && HidesClass(object)) return false;
  }
  return true;
}

std::string ExplainTensor(const TensorSpec& spec, BorrowedRef object) {
  if (!object) return "is missing";
  if (object.type() != spec.type) return Mismatch("type", spec.type->tp_name, object.type()->tp_name);
  c10::TensorImpl* impl = Impl(object.get());
  if (impl == nullptr) return "is undefined";
  const auto dtype = c10::typeMetaToScalarType(impl->dtype());
  if (static_cast<std::uint16_t>(dtype) != spec.dtype) {
    return Mismatch("dtype", c10::toString(static_cast<c10::ScalarType>(spec.dtype)), c10::toString(dtype));
  }
  const bool plain = HasDefaultPolicy(*impl);
  if (spec.plain && plain) {
    if (PackDevice(impl->device()) != spec.device) return Mismatch("device", UnpackDevice(spec.device), impl->device());
    const c10::IntArrayRef sizes = impl->sizes();
    if (sizes.size() != spec.Sizes().size()) return Mismatch("rank", spec.Sizes().size(), sizes.size());
    std::string text = ExplainList("size", spec.Sizes(), sizes, spec.free_sizes);
    if (text.empty()) text = ExplainList("stride", spec.Strides(), impl->strides(), spec.free_strides);
    if (!text.empty()) return text;
    if (spec.offset >= 0 && impl->storage_offset() != spec.offset) {
      return Mismatch("storage offset", spec.offset, impl->storage_offset());
    }
    if (spec.storage >= 0 && StorageBytes(*impl) != spec.storage) {
      return Mismatch("bytes of the storage", spec.storage, StorageBytes(*impl));
    }
  }
  const GradState grad = ReadGradState(*impl);
  if (grad.requires_grad != spec.requires_grad) {
    return Mismatch("requires_grad", spec.requires_grad ? "True" : "False", grad.requires_grad ? "True" : "False");
  }
  if (spec.compares_leaf && grad.is_leaf != spec.is_leaf) {
    return Mismatch("is_leaf", spec.is_leaf ? "True" : "False", grad.is_leaf ? "True" : "False");
  }
  if (spec.compares_leaf && grad.is_renewed && !spec.history.is_renewed) {
    return Mismatch("a view with a history", "False", "True");
  }
  if (spec.compares_leaf && HasHooks(*impl, MetaOf(*impl)) != spec.history.has_hooks) {
    return Mismatch("gradient hooks", spec.history.has_hooks ? "some" : "none",
                    spec.history.has_hooks ? "none" : "some");
  }
  if (impl->key_set().raw_repr() != spec.key_set) {
    const c10::DispatchKeySet expected(c10::DispatchKeySet::RAW, spec.key_set);
    return Mismatch("dispatch keys", c10::toString(expected), c10::toString(impl->key_set()));
  }
  if (spec.shows_class && HidesClass(object)) return "an attribute of its own hides one of its class";
  return CheckTensor(spec, object) ? "" : "metadata mismatch";
}

namespace {
// Of a tensor with as many dimensions; null: it is none.
const c10::TensorImpl* Comparable(const TensorSpec& spec, BorrowedRef object) {
  if (!object || object.type() != spec.type || !spec.plain) return nullptr;
  const c10::TensorImpl* impl = Impl(object.get());
  return impl != nullptr && HasDefaultPolicy(*impl) && impl->sizes().size() == spec.Sizes().size() ? impl : nullptr;
}
}  // namespace

std::vector<int> DifferingSizes(const TensorSpec& spec, BorrowedRef object) {
  std::vector<int> dims;
  const c10::TensorImpl* impl = Comparable(spec, object);
  for (std::size_t d = 0; impl != nullptr && d < spec.Sizes().size(); ++d) {
    if (!IsFree(spec.free_sizes, d) && impl->sizes()[d] != spec.Sizes()[d]) dims.push_back(static_cast<int>(d));
  }
  return dims;
}

std::vector<int> DifferingStrides(const TensorSpec& spec, BorrowedRef object) {
  std::vector<int> dims;
  const c10::TensorImpl* impl = Comparable(spec, object);
  for (std::size_t d = 0; impl != nullptr && d < spec.Strides().size(); ++d) {
    if (impl->strides()[d] != spec.Strides()[d]) dims.push_back(static_cast<int>(d));
  }
  return dims;
}

std::string DescribeTensor(const TensorSpec& spec) {
  std::ostringstream text;
  text << c10::toString(static_cast<c10::ScalarType>(spec.dtype));
  if (spec.plain) {
    text << ListText(spec.Sizes(), spec.free_sizes) << " strides " << ListText(spec.Strides(), spec.free_strides) << ' '
         << UnpackDevice(spec.device);
    if (spec.offset >= 0) text << " storage_offset " << spec.offset;
    if (spec.storage >= 0) text << " storage_bytes " << spec.storage;
  } else {
    text << " keys " << c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, spec.key_set));
  }
  if (spec.requires_grad) text << " requires_grad";
  if (spec.requires_grad && spec.compares_leaf) text << (spec.is_leaf ? " leaf" : " no leaf");
  return text.str();
}

Ref ReadGrad(BorrowedRef tensor) {
  if (!IsTensor(tensor)) return {};
  const c10::TensorImpl* impl = Impl(tensor.get());
  if (impl == nullptr || impl->is_python_dispatch()) return {};
  const AutogradMeta* meta = MetaOf(*impl);
  if (meta == nullptr || !meta->grad_.defined()) return Ref::Create(Py_None);
  return Ref::Steal(THPVariable_Wrap(meta->grad_));
}

Ref TensorOfArray(BorrowedRef array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | PyBUF_WRITABLE) != 0) {
    PyErr_Clear();
    return {};
  }
  PyBuffer_Release(&view);
  try {
    return Ref::Steal(THPVariable_Wrap(torch::utils::tensor_from_numpy(array, /*warn_if_not_writeable=*/false)));
  } catch (const std::exception&) {  // strides or numbers that torch has not
    PyErr_Clear();
    return {};
  }
}

bool HasHistory(BorrowedRef tensor) { return IsTensor(tensor) && !ReadGradState(*Impl(tensor.get())).is_leaf; }

bool HasGradientHooks(BorrowedRef tensor) {
  if (!IsTensor(tensor)) return false;
  c10::TensorImpl& impl = *Impl(tensor.get());
  return HasHooks(impl, MetaOf(impl));
}

bool IsTorchSizeType(PyTypeObject* type) { return type == &THPSizeType; }

bool IsTorchDevice(BorrowedRef object) { return object && THPDevice_Check(object.get()); }

bool SameTorchDevice(BorrowedRef a, BorrowedRef b) {
  return IsTorchDevice(a) && IsTorchDevice(b) &&
         reinterpret_cast<THPDevice*>(a.get())->device == reinterpret_cast<THPDevice*>(b.get())->device;
}

std::string TorchDeviceText(BorrowedRef device) {
  return "device('" + reinterpret_cast<THPDevice*>(device.get())->device.str() + "')";
}

MemoryRange TensorMemory(BorrowedRef tensor) {
  if (!IsTensor(tensor)) return {};
  const c10::TensorImpl* impl = Impl(tensor.get());
  if (impl == nullptr || !impl->unsafe_storage()) return {};
  const c10::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  const auto begin = reinterpret_cast<std::uintptr_t>(storage.data_ptr().get());
  // A storage with a symbolic size belongs to a fake; no live frame holds one.
  if (begin == 0 || storage.sym_nbytes().is_heap_allocated() || impl->has_symbolic_sizes_strides()) return {};
  const std::size_t bytes = storage.nbytes();
  if (bytes == 0) return {};
  const auto offset = static_cast<std::uintptr_t>(impl->is_python_dispatch() ? 0 : impl->storage_offset());
  return {begin, begin + bytes, begin + offset * impl->itemsize()};
}

}  // namespace framefuse
