// Lower: a group to kernels of the kernel IR, with the sizes and strides of their launch as symbolic dims.
#ifndef FRAMEFUSE_BACKENDS_FUSION_LOWER_H_
#define FRAMEFUSE_BACKENDS_FUSION_LOWER_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/fusion/iteration.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::fusion {

// A buffer of a kernel: a value of the graph, or a temporary of the group (partial results of split reductions).
struct KernelBuffer {
  ir::ValueId value = ir::kNoValue;
  int temporary = -1;
  // strides in elements
  std::vector<ir::Dim> outer;
  ir::Dim segment, inner;
};

struct LoweredKernel {
  kernel_ir::Kernel kernel;
  ir::Dim inner = 1, segments = 1;
  std::vector<ir::Dim> extents;  // as cpu::LaunchShape
  std::vector<KernelBuffer> buffers;
  std::vector<ir::Dim> params;
  std::int64_t split_total = 0;
};

struct Temporary {
  kernel_ir::DType dtype = kernel_ir::DType::kF32;
  std::int64_t elements = 0;
};

// Each element of `index` must be in [0, extent), or be `ignored`; or, where it wraps, in [-extent, extent). CUDA's
// kernels see to that themselves.
struct IndexCheck {
  ir::ValueId index = ir::kNoValue;
  ir::Dim extent;
  std::int64_t ignored = 0;
  bool wraps = false;
};

// A result that is part of another value's memory (places.h).
struct Place {
  ir::ValueId whole = ir::kNoValue;
  std::int64_t offset = 0;  // elements
};

struct LoweredGroup {
  std::vector<ir::ValueId> inputs, outputs;
  std::vector<std::pair<ir::ValueId, Place>> places;  // of outputs
  std::vector<IndexCheck> checks;
  std::vector<LoweredKernel> kernels;  // run in order
  std::vector<Temporary> temporaries;
};

// When a reduction is split into parts whose results a second kernel combines: there would be too few rows or columns
// to share out else. And how much of what lies across a block can turn in its shared memory.
struct SplitRules {
  std::int64_t most_rows = 4, least_row = 65536, chunk = 16384,
               least_chunk = 16384;                                     // row reductions; chunk: points of a part
  std::int64_t most_columns = 1024, rows_apart = 256, most_parts = 16;  // column reductions
  std::int64_t wanted_columns = 0;  // columns times parts that are enough; 0: no limit
  std::int64_t turned_bytes = 0;    // of tiles of 256 rows of 18 elements; 0: no limit
  std::int64_t least_turned = 16;   // points of a tile's shorter side
};
inline constexpr SplitRules kCpuSplits;
inline constexpr SplitRules kCudaSplits = {264, 16384, 8192, 1024, 262144, 32, 512, 131072, 48 << 10, 4};

// `needed`: for each value whether a node outside the group or the graph's outputs use it.
// Unimplemented where the group has no kernel form (it then runs as ATen operators).
absl::StatusOr<LoweredGroup> Lower(ir::Graph& graph, const Group& group, const std::vector<bool>& needed,
                                   const SplitRules& splits);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_LOWER_H_
