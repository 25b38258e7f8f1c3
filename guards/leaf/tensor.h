// leaf/tensor: facts about one tensor's metadata (TensorSpec), and raw reads of tensors and torch values.
// What a spec holds: Python class, device, dtype, sizes, strides, layout and the other dispatch keys (conj, neg,
// inference, quantised, Python dispatch …), requires_grad; is_leaf, hooks and the storage offset where they are asked
// for. Sizes and strides that may change are left out (facts about them: leaf/value.h). No data. Invariant: a check
// reads TensorImpl fields only; it never calls a virtual method that could reach Python. Torch's headers stay in
// tensor.cpp.
#ifndef FRAMEFUSE_GUARDS_LEAF_TENSOR_H_
#define FRAMEFUSE_GUARDS_LEAF_TENSOR_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "guards/leaf/overlap.h"

namespace framefuse {

// Ordered by use: what the fast check reads fills the first cache lines.
struct TensorSpec {
  static constexpr int kInlineDims = 5;  // as TensorImpl's own inline storage

  PyTypeObject* type = nullptr;  // owned by `type_ref`
  std::uint64_t key_set = 0;
  std::uint16_t dtype = 0;   // c10::ScalarType
  std::uint16_t device = 0;  // type and index
  std::int16_t dim = 0;      // -1: sizes are not readable (Python dispatch, nested, sparse, symbolic) and not guarded
  bool requires_grad = false;
  bool compares_leaf = false;
  bool is_leaf = true;  // as recorded where it is compared, else true
  struct History {
    bool has_hooks = false;   // for gradients
    bool is_renewed = false;  // a view's, which is made anew behind a write that has none
    friend bool operator==(const History&, const History&) = default;
  } history;                 // compared where is_leaf is
  bool plain = false;        // strided, sizes and strides stored inline, by default policy
  bool shows_class = false;  // no attribute of its own hides one of its class
  bool packed = false;       // plain, contiguous, and no size is 1 or 0: the sizes say what the strides are
  std::uint32_t free_sizes = 0, free_strides = 0;  // by bit: dimensions whose size or stride is not compared
  std::array<std::int64_t, kInlineDims> sizes{};
  std::array<std::int64_t, kInlineDims> strides{};
  std::int64_t offset = -1;        // storage offset, -1: any
  std::int64_t storage = -1;       // bytes of the storage, -1: any
  std::vector<std::int64_t> more;  // more dimensions than kInlineDims: all sizes, then all strides
  RefOf<PyTypeObject> type_ref;

  absl::Span<const std::int64_t> Sizes() const;
  absl::Span<const std::int64_t> Strides() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

struct TensorCheck {
  const TensorSpec* spec = nullptr;
  std::int32_t source = 0;  // index into the array of objects
};

// Where a tensor's parts were at the last check: addresses to prefetch, never read through.
struct TensorHint {
  const void* impl = nullptr;
  const void* autograd = nullptr;
};

// Whether the object is a torch.Tensor (or of a subclass), by its type's MRO.
bool IsTensor(BorrowedRef object);

// False if `object` is no tensor, or an undefined one.
bool RecordTensor(BorrowedRef object, TensorSpec* spec);
// The offset and the size of the storage come to what `spec` holds. False if they cannot be read.
bool RecordStorage(BorrowedRef object, TensorSpec* spec);
// The offset comes to what `spec` holds. False if it cannot be read.
bool RecordOffset(BorrowedRef object, TensorSpec* spec);
// Whether it is a leaf, and whether hooks wait for its gradient, comes to what `spec` holds.
bool RecordLeaf(BorrowedRef object, TensorSpec* spec);
// Whether an attribute of the tensor's own hides one of its class: `x.sum = 1`.
bool HidesClass(BorrowedRef object) noexcept;
// That none does comes to what `spec` holds. False: one does.
bool RecordShownClass(BorrowedRef object, TensorSpec* spec);
// The dimensions in the masks are not compared; of a plain tensor with no more of them than bits.
bool FreeSizes(TensorSpec* spec, std::uint32_t sizes, std::uint32_t strides);
bool CheckTensor(const TensorSpec& spec, BorrowedRef object) noexcept;
// All of `checks`; hints[i] belongs to checks[i]. Hundreds of parameters take a few cache misses each, so the misses of
// the next ones are started early.
bool CheckTensors(absl::Span<const TensorCheck> checks, PyObject* const* objects, TensorHint* hints) noexcept;
// First difference, such as "size mismatch at dim 0: expected 10, actual 12"; empty where none.
std::string ExplainTensor(const TensorSpec& spec, BorrowedRef object);
// Compared dimensions in which a tensor of as many has another size.
std::vector<int> DifferingSizes(const TensorSpec& spec, BorrowedRef object);
// Dimensions in which it has another stride than the recorded tensor, compared or not.
std::vector<int> DifferingStrides(const TensorSpec& spec, BorrowedRef object);
// "f32[10, 3] strides [3, 1] cpu requires_grad" …; a * stands for what is not compared
std::string DescribeTensor(const TensorSpec& spec);

// tensor.grad: an owned reference; null Ref if it has none or is no tensor. Runs no Python.
Ref ReadGrad(BorrowedRef tensor);
// torch.from_numpy(array). Null, and no error: there is no such tensor, or torch would warn of what cannot be written.
Ref TensorOfArray(BorrowedRef array);
std::int64_t SizeOf(BorrowedRef tensor, int dim);    // of a plain one
std::int64_t StrideOf(BorrowedRef tensor, int dim);  // of a plain one
bool HasHistory(BorrowedRef tensor);                 // an operation that requires grad made it: it is no leaf
bool HasGradientHooks(BorrowedRef tensor);

// Compares as a tuple, in C code of its own.
bool IsTorchSizeType(PyTypeObject* type);

// torch.device values: exact type and equal device.
bool IsTorchDevice(BorrowedRef object);
bool SameTorchDevice(BorrowedRef a, BorrowedRef b);
std::string TorchDeviceText(BorrowedRef device);

// Where a tensor's memory lies (all zero if it has none): its whole storage, and its first element.
MemoryRange TensorMemory(BorrowedRef tensor);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_TENSOR_H_
