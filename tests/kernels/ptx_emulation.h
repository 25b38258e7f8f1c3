// Runs printed PTX on the CPU, instruction by instruction; kernels that PrintPtx refuses run as CUDA text
// (cuda_emulation.h). It shows that the text computes the right thing and takes no liberties (ptx_machine.h); not its
// speed, or what ptxas makes of it. Owner: tests/kernels.
#ifndef FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_
#define FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_

#include <memory>

#include "backends/cuda_runtime/engine.h"

namespace framefuse::testing {

// Serves CPU tensors. `printed` counts the kernels that are PTX; one that is not, and should be, fails the test.
std::unique_ptr<cuda::Engine> MakePtxEngine(int* printed);

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_
