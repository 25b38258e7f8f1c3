// How a compiled or interpreted kernel is called: void k(void** args, int64_t begin, int64_t end).
// args = buffer pointers at point `begin`, then scratch rows, then int64_t* sizes, then int64_t* digits (the outer
// index of `begin`). begin..end counts rows; elements if outer_rank is 0. SizesLayout says what `sizes` holds.
// Invariant: the launcher has moved the pointers, so a kernel only ever steps them by deltas.
#ifndef FRAMEFUSE_BACKENDS_KERNEL_IR_ABI_H_
#define FRAMEFUSE_BACKENDS_KERNEL_IR_ABI_H_

#include "backends/kernel_ir/kernel.h"

namespace framefuse::kernel_ir {

using KernelFunction = void (*)(void** args, std::int64_t begin, std::int64_t end);

// Scratch rows the launcher provides: the kernel's own and one accumulator row for each column reduction.
int ScratchRowCount(const Kernel& kernel);

// Slots of `sizes`. Strides and deltas are in bytes. Delta(b, d) is what moves buffer b's pointer when the row
// index carries into outer dimension d: stride[d] - sum over e > d of (extent[e] - 1) * stride[e].
class SizesLayout {
 public:
  explicit SizesLayout(const Kernel& kernel)
      : rank_(kernel.outer_rank),
        params_(static_cast<int>(kernel.params.size())),
        buffers_(static_cast<int>(kernel.buffers.size())) {}

  static constexpr int kInner = 0;
  static constexpr int kSegments = 1;
  int Extent(int d) const { return 2 + d; }
  int Param(int i) const { return 2 + rank_ + i; }
  int Delta(int buffer, int d) const { return Base(buffer) + d; }
  int SegmentStride(int buffer) const { return Base(buffer) + rank_; }
  int InnerStride(int buffer) const { return Base(buffer) + rank_ + 1; }
  int count() const { return Base(buffers_); }

 private:
  int Base(int buffer) const { return 2 + rank_ + params_ + buffer * (rank_ + 2); }
  int rank_, params_, buffers_;
};

}  // namespace framefuse::kernel_ir

#endif  // FRAMEFUSE_BACKENDS_KERNEL_IR_ABI_H_
