// Stand-in until the printer is merged: prints nothing. Owner: backends/emit.
#ifndef FRAMEFUSE_BACKENDS_EMIT_PTX_PRINT_PTX_H_
#define FRAMEFUSE_BACKENDS_EMIT_PTX_PRINT_PTX_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/emit/cuda/form.h"

namespace framefuse::emit {

absl::StatusOr<std::string> PrintPtx(const kernel_ir::Kernel& kernel, const CudaForm& form, const std::string& name);
std::string PtxModule(std::string_view kernels, int architecture);

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_PTX_PRINT_PTX_H_
