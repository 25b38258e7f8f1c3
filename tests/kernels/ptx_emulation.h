// Runs printed PTX on the CPU, instruction by instruction; kernels that PrintPtx refuses run as CUDA text
// (cuda_emulation.h). It shows that the text computes the right thing and takes no liberties (ptx_machine.h); not its
// speed, or what ptxas makes of it.
#ifndef FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_
#define FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_

#include <memory>
#include <vector>

#include "backends/cuda_runtime/engine.h"

namespace framefuse::testing {

// Serves CPU tensors. `printed` counts the kernels that are PTX; one that is not, and should be, fails the test.
std::unique_ptr<cuda::Engine> MakePtxEngine(int* printed);

// One launch of one kernel, as a step makes it: prepared for `form`, which is not what runs where the form is exact and
// the buffers are not aligned for it. `elements` of each buffer, outside of which nothing may be touched.
// Unimplemented: it is not printed in PTX.
absl::Status RunAsPtx(const kernel_ir::Kernel& kernel, const emit::CudaForm& form, const kernel_ir::LaunchShape& shape,
                      void* const* buffers, const std::vector<std::int64_t>& elements);

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_
