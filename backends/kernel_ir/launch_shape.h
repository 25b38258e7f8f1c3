// LaunchShape: the sizes and strides of one use of a kernel, for every device.
#ifndef FRAMEFUSE_BACKENDS_KERNEL_IR_LAUNCH_SHAPE_H_
#define FRAMEFUSE_BACKENDS_KERNEL_IR_LAUNCH_SHAPE_H_

#include <cstdint>
#include <vector>

namespace framefuse::kernel_ir {

// Strides in bytes.
struct BufferStrides {
  std::vector<std::int64_t> outer;
  std::int64_t segment = 0;
  std::int64_t inner = 0;
  bool operator==(const BufferStrides&) const = default;
};

struct LaunchShape {
  std::int64_t inner = 1;
  std::int64_t segments = 1;
  // Outer extents. Column and transposed kernels know only the last; those before it are batch dimensions.
  std::vector<std::int64_t> extents;
  std::vector<BufferStrides> buffers;
  std::vector<std::uint64_t> params;  // int64 or double bits
  // Split reductions whose last part is shorter. Column: total rows over the last batch dimension; row: total
  // points over the rows. 0: all parts are equal.
  std::int64_t split_total = 0;
  bool operator==(const LaunchShape&) const = default;
};

}  // namespace framefuse::kernel_ir

#endif  // FRAMEFUSE_BACKENDS_KERNEL_IR_LAUNCH_SHAPE_H_
