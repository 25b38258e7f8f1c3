// FakeImpl: a tensor without memory that stands for a value of the graph under capture.
// It carries the backend's key (so autograd, autocast and ADInplaceOrView act as on the real tensor) plus
// DispatchKey::Fake, whose fallback is the recorder; its storage is null and throws when data is asked for.
// Who asks for its sizes as plain numbers pins symbolic ones (sizes.h).
// Invariant: tensors that would share memory share a StorageImpl; `recording` names the attempt that made it.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_FAKE_TENSOR_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_FAKE_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <string_view>

#include "backends/graph/graph.h"

namespace framefuse::tracing {

// What torch raises if it is asked for the memory of a fake.
inline constexpr std::string_view kReadsFakeMemory = "framefuse: the values of a traced tensor were asked for";

class FakeImpl final : public c10::TensorImpl {
 public:
  FakeImpl(c10::Storage storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, ir::ValueId value,
           std::uint64_t recording);
  ~FakeImpl() override;

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override;
  // `x.data = y`.
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;
  const char* tensorimpl_type_name() const override { return "FakeImpl"; }

  ir::ValueId value() const { return value_; }
  std::uint64_t recording() const { return recording_; }
  // Whether the value was computed from what has a history.
  bool has_history() const { return has_history_; }
  void GiveHistory() { has_history_ = true; }
  // Whether another tensor stands for the value, too, and autograd does not know of both (x.data); whether detach_()
  // was called. Such a tensor without a history stands for a detached value.
  bool is_copy() const { return is_copy_; }
  bool is_detached() const { return is_detached_; }
  void Detach() { is_detached_ = true; }
  // After a change of metadata in place (t_, squeeze_ …): the tensor now is another value.
  void Rebind(ir::ValueId value) {
    value_ = value;
    meta_ = at::Tensor();
  }
  // The same tensor on the meta device, made at first use; meta kernels run on it.
  const at::Tensor& Meta() const;
  void ForgetMeta() { meta_ = at::Tensor(); }
  // Resized as `meta` was; only for a fake whose memory nobody else has.
  void TakeGeometry(const at::Tensor& meta);

  static std::int64_t LiveCount();

 protected:
  // Torch asks these where sizes are symbolic.
  c10::IntArrayRef sizes_custom() const override;
  std::int64_t size_custom(std::int64_t d) const override;
  c10::IntArrayRef strides_custom() const override;
  std::int64_t numel_custom() const override;
  std::int64_t storage_offset_custom() const override;

 private:
  template <typename Version>
  c10::intrusive_ptr<TensorImpl> Copy(Version&& version, bool allow_metadata_change) const;

  ir::ValueId value_;
  std::uint64_t recording_;
  bool has_history_ = false;
  bool is_copy_ = false;
  bool is_detached_ = false;
  mutable at::Tensor meta_;
  mutable c10::DimVector pinned_sizes_, pinned_strides_;
};

// The fake behind `t`, or null.
FakeImpl* AsFake(const at::Tensor& t);

// A storage without memory of this size.
c10::Storage MakeFakeStorage(c10::Device device, c10::SymInt nbytes);
at::Tensor MakeFake(c10::Storage storage, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                    const c10::SymInt& offset, c10::ScalarType dtype, c10::Device device, ir::ValueId value,
                    std::uint64_t recording);
// Bytes that a fresh tensor of this geometry occupies.
c10::SymInt StorageBytes(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, const c10::SymInt& offset,
                         c10::ScalarType dtype);
// A meta tensor of the same geometry (and wrapped-number flag) as `t`.
at::Tensor MetaLike(const at::Tensor& t);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_FAKE_TENSOR_H_
