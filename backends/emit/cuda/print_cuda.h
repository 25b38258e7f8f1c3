// Kernels as CUDA C++ text: self-contained (no headers), sizes and strides as arguments. Owner: backends/emit.
// Pointwise kernels take one point a thread and step; row kernels give a row to a block that walks the rows of the
// grid; column kernels give a panel of 32 columns to a block whose warps share the rows.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_PRINT_CUDA_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_PRINT_CUDA_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::emit {

// Arguments of the printed function: void* for each buffer, then int64_t inner, segments, extent for each outer
// dimension, each parameter (int64 or double), and for each buffer its outer strides, segment stride and inner stride,
// all in elements. `name` must be an identifier.
absl::StatusOr<std::string> PrintCuda(const kernel_ir::Kernel& kernel, const std::string& name);

// What every translation unit starts with: element conversions and block reductions.
const std::string& CudaPrelude();

inline constexpr int kCudaThreads = 256;

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_PRINT_CUDA_H_
