// Launch: a kernel with the sizes and strides of one use; Run applies it to buffers, in parallel when it pays.
// Invariant: how work is divided never changes results: reductions are split by shape, not by thread count.
#ifndef FRAMEFUSE_BACKENDS_CPU_RUNTIME_LAUNCH_H_
#define FRAMEFUSE_BACKENDS_CPU_RUNTIME_LAUNCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu_runtime/kernel.h"
#include "backends/kernel_ir/launch_shape.h"

namespace framefuse::cpu {

using kernel_ir::BufferStrides;
using kernel_ir::LaunchShape;

class Launch {
 public:
  Launch(std::shared_ptr<const CpuKernel> kernel, LaunchShape shape);

  void Run(void* const* buffers) const;
  // Horizontal kernels: `tables[t]` are the buffers of tensor t, `counts[t]` its elements.
  void RunTable(const std::vector<std::vector<void*>>& tables, const std::vector<std::int64_t>& counts) const;

  const CpuKernel& kernel() const { return *kernel_; }
  const LaunchShape& shape() const { return shape_; }

 private:
  struct Arguments;
  void RunEmptyRows(void* const* buffers) const;
  void RunRows(void* const* buffers, std::int64_t begin, std::int64_t end) const;
  void RunFlat(void* const* buffers, std::int64_t begin, std::int64_t end) const;
  void RunColumns(void* const* buffers) const;
  void RunColumnUnit(void* const* buffers, std::int64_t batch, std::int64_t begin, std::int64_t end) const;
  void RunTransposed(void* const* buffers) const;
  std::int64_t InnerStride(std::size_t buffer) const;
  std::int64_t BatchOffset(int buffer, std::int64_t batch) const;

  std::shared_ptr<const CpuKernel> kernel_;
  LaunchShape shape_;
  std::vector<std::int64_t> sizes_;  // as abi.h lays them out
  std::int64_t rows_ = 1;
  std::int64_t batches_ = 1;
  std::int64_t scratch_bytes_ = 0;  // of one scratch row
  int scratch_rows_ = 0;
};

}  // namespace framefuse::cpu

#endif  // FRAMEFUSE_BACKENDS_CPU_RUNTIME_LAUNCH_H_
