// Kernels as PTX: the same walks over rows and points as the CUDA C++ of print_cuda.h, with the same arguments, grid
// and threads, so that a launch need not know which printer made a kernel. For what this one does not print the other
// does. Made for processors from 8.0 on.
#ifndef FRAMEFUSE_BACKENDS_EMIT_PTX_PRINT_PTX_H_
#define FRAMEFUSE_BACKENDS_EMIT_PTX_PRINT_PTX_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/emit/cuda/form.h"

namespace framefuse::emit {

inline constexpr int kLeastPtxArchitecture = 80;

// One entry called `name`. Unimplemented: not printed in PTX.
absl::StatusOr<std::string> PrintPtx(const kernel_ir::Kernel& kernel, const CudaForm& form, const std::string& name);

// A module of printed kernels.
std::string PtxModule(std::string_view kernels, int architecture);

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_PTX_PRINT_PTX_H_
