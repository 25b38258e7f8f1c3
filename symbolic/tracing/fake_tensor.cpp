#include "symbolic/tracing/fake_tensor.h"

#include <c10/core/SymBool.h>
#include <c10/core/WrapDimMinimal.h>

#include <atomic>
#include <utility>

#include "symbolic/tracing/break.h"
#include "symbolic/tracing/extremum_gradient.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/size_node.h"

namespace framefuse::tracing {
namespace {

std::atomic<std::int64_t> live_fakes{0};

c10::DispatchKeySet FakeKeys(c10::Device device) {
  const c10::DispatchKey backend = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  return c10::DispatchKeySet(backend) | c10::DispatchKeySet(c10::DispatchKey::Fake);
}

}  // namespace

FakeImpl::FakeImpl(c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, ir::ValueId value,
                   std::uint64_t recording)
    : TensorImpl(std::move(storage), keys, dtype), value_(value), recording_(recording) {
  live_fakes.fetch_add(1, std::memory_order_relaxed);
}

FakeImpl::~FakeImpl() { live_fakes.fetch_sub(1, std::memory_order_relaxed); }

std::int64_t FakeImpl::LiveCount() { return live_fakes.load(std::memory_order_relaxed); }

template <typename Version>
c10::intrusive_ptr<c10::TensorImpl> FakeImpl::Copy(Version&& version, bool allow_metadata_change) const {
  auto copy = c10::make_intrusive<FakeImpl>(c10::Storage(storage_), key_set_, data_type_, value_, recording_);
  copy_tensor_metadata(this, copy.get(), std::forward<Version>(version), allow_metadata_change);
  copy->has_history_ = has_history_;
  copy->is_copy_ = true;
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> FakeImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                      bool allow_metadata_change) const {
  return Copy(version, allow_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> FakeImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                      bool allow_metadata_change) const {
  return Copy(std::move(version), allow_metadata_change);
}

void FakeImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  auto* other = dynamic_cast<FakeImpl*>(impl.get());
  if (other == nullptr) {
    ThrowBreak(BreakKind::kRealTensor, "x.data = y", "the data of a traced tensor is replaced by an untraced one");
  }
  if (other == this) return;  // a module that is moved to where it is
  Recorder* recorder = Recorder::Current();
  if (recorder != nullptr && recorder->inputs().Contains(value_)) {
    ThrowBreak(BreakKind::kMetadataMutation, "x.data = y", "the data of an input is replaced");
  }
  if (requires_grad() && (has_history_ || other->has_history_)) {
    ThrowBreak(BreakKind::kMetadataMutation, "x.data = y", "the history of a result would be that of other data");
  }
  copy_tensor_metadata(other, this, version_counter(), allow_tensor_metadata_change());
  has_history_ = other->has_history_;
  Rebind(other->value_);
}

namespace {
c10::IntArrayRef Pinned(c10::SymIntArrayRef numbers, c10::DimVector* into) {
  into->clear();
  for (const c10::SymInt& s : numbers) into->push_back(s.guard_int(__FILE__, __LINE__));
  return *into;
}
}  // namespace

c10::IntArrayRef FakeImpl::sizes_custom() const {
  Recorder* recorder = Recorder::Current();
  if (recorder == nullptr || !AsksForZerosOf(*recorder, value_)) return Pinned(sym_sizes(), &pinned_sizes_);
  pinned_sizes_.clear();
  for (const c10::SymInt& s : sym_sizes()) pinned_sizes_.push_back(HintOf(s));
  return pinned_sizes_;
}
std::int64_t FakeImpl::size_custom(std::int64_t d) const {
  const std::int64_t at = c10::maybe_wrap_dim(d, dim(), /*wrap_scalar=*/false);
  return sym_sizes()[static_cast<std::size_t>(at)].guard_int(__FILE__, __LINE__);
}
c10::IntArrayRef FakeImpl::strides_custom() const { return Pinned(sym_strides(), &pinned_strides_); }
std::int64_t FakeImpl::numel_custom() const { return sym_numel().guard_int(__FILE__, __LINE__); }
std::int64_t FakeImpl::storage_offset_custom() const { return sym_storage_offset().guard_int(__FILE__, __LINE__); }

const at::Tensor& FakeImpl::Meta() const {
  if (!meta_.defined()) {
    // A Tensor over `this` for the moment of the copy.
    auto self = c10::intrusive_ptr<TensorImpl, c10::UndefinedTensorImpl>::unsafe_reclaim_from_nonowning(
        const_cast<FakeImpl*>(this));
    meta_ = MetaLike(at::Tensor(std::move(self)));
  }
  return meta_;
}

FakeImpl* AsFake(const at::Tensor& t) {
  if (!t.defined() || !t.key_set().has(c10::DispatchKey::Fake)) return nullptr;
  return dynamic_cast<FakeImpl*>(t.unsafeGetTensorImpl());
}

c10::Storage MakeFakeStorage(c10::Device device, c10::SymInt nbytes) {
  auto impl =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), std::move(nbytes),
                                            at::DataPtr(nullptr, device), /*allocator=*/nullptr, /*resizable=*/false);
  impl->release_data_and_set_meta_custom_data_ptr_error_msg_(std::string(kReadsFakeMemory));
  impl->set_throw_on_mutable_data_ptr();
  return c10::Storage(std::move(impl));
}

void FakeImpl::TakeGeometry(const at::Tensor& meta) {
  storage_.unsafeGetStorageImpl()->set_nbytes(meta.storage().sym_nbytes());
  set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset());
  ForgetMeta();
}

namespace {

void SetGeometry(c10::TensorImpl* impl, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                 const c10::SymInt& offset) {
  Dims plain_sizes, plain_strides;
  for (const c10::SymInt& s : sizes) plain_sizes.push_back(Plain(s));
  for (const c10::SymInt& s : strides) plain_strides.push_back(Plain(s));
  auto int_sizes = c10::asIntArrayRefSlowOpt(plain_sizes);
  auto int_strides = c10::asIntArrayRefSlowOpt(plain_strides);
  const std::optional<std::int64_t> int_offset = offset.maybe_as_int();
  if (int_sizes && int_strides && int_offset) {
    impl->set_sizes_and_strides(*int_sizes, *int_strides, *int_offset);
  } else {
    impl->set_sizes_and_strides(plain_sizes, plain_strides, Plain(offset));
  }
}

}  // namespace

at::Tensor MakeFake(c10::Storage storage, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                    const c10::SymInt& offset, c10::ScalarType dtype, c10::Device device, ir::ValueId value,
                    std::uint64_t recording) {
  auto impl = c10::make_intrusive<FakeImpl>(std::move(storage), FakeKeys(device), c10::scalarTypeToTypeMeta(dtype),
                                            value, recording);
  SetGeometry(impl.get(), sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

c10::SymInt StorageBytes(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, const c10::SymInt& offset,
                         c10::ScalarType dtype) {
  c10::SymInt extent = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].is_symbolic() && sizes[i] == 0) return 0;  // of symbolic sizes the sum says so, too
    extent += (sizes[i] - 1) * strides[i];
  }
  return (extent + offset) * static_cast<std::int64_t>(c10::elementSize(dtype));
}

at::Tensor MetaLike(const at::Tensor& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), t.storage().sym_nbytes().guard_int(__FILE__, __LINE__),
      at::DataPtr(nullptr, c10::Device(c10::DeviceType::Meta)), c10::GetAllocator(c10::DeviceType::Meta),
      /*resizable=*/true);  // an `out` of another size is seen by who asked the kernel
  auto meta = c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                   c10::DispatchKeySet(c10::DispatchKey::Meta), t.dtype());
  if (impl->has_symbolic_sizes_strides()) {
    // Structured meta kernels take numbers: the symbols are guarded on their hints here.
    c10::DimVector sizes, strides;
    for (const c10::SymInt& s : t.sym_sizes()) sizes.push_back(s.guard_int(__FILE__, __LINE__));
    for (const c10::SymInt& s : t.sym_strides()) strides.push_back(s.guard_int(__FILE__, __LINE__));
    // Where it begins matters to what shares its memory only (Recorder::InferMeta).
    meta->set_sizes_and_strides(sizes, strides, HintOf(t.sym_storage_offset()));
  } else {
    meta->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  }
  if (impl->is_wrapped_number()) meta->set_wrapped_number(true);
  return at::Tensor(std::move(meta));
}

}  // namespace framefuse::tracing
