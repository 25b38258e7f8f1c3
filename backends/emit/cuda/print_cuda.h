// Kernels as CUDA C++ text: self-contained (no headers), sizes and strides as arguments, in the form that form.h
// chose. Pointwise: a thread takes `vector` points; row: `row_threads` threads share a row, which stays in their
// registers where it fits; column: the warps of a block share the rows of a panel of 32 vectors; transposed: a block
// takes a tile, turned in shared memory.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_PRINT_CUDA_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_PRINT_CUDA_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/emit/cuda/form.h"

namespace framefuse::emit {

// An extern "C" kernel called `name` (an identifier) with one argument, Args<buffers, CudaSizes::count()>.
absl::StatusOr<std::string> PrintCuda(const kernel_ir::Kernel& kernel, const CudaForm& form, const std::string& name);

// A translation unit of printed kernels. `machine`: other definitions of what is in PTX, for compilers of other
// machines.
std::string CudaProgram(std::string_view kernels, std::string_view machine = {});

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_PRINT_CUDA_H_
