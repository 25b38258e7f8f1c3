// Runs printed PTX on the CPU, instruction by instruction; kernels that PrintPtx refuses run as CUDA text
// (cuda_emulation.h). It shows that the text computes the right thing and takes no liberties (ptx_machine.h); not its
// speed, or what ptxas makes of it. Owner: tests/kernels.
#ifndef FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_
#define FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_

#include <memory>
#include <set>
#include <string>

#include "backends/cuda_runtime/engine.h"

namespace framefuse::testing {

struct PtxCounts {
  int printed = 0;
  std::set<std::string> refused;  // why
};

// Serves CPU tensors. `counts` may be null.
std::unique_ptr<cuda::Engine> MakePtxEngine(PtxCounts* counts);

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_KERNELS_PTX_EMULATION_H_
