// Runs printed CUDA text on the CPU: the text is compiled by the host's C++ compiler behind a prelude that has CUDA's
// names, each thread of a block is a coroutine (ucontext), and blocks run one after the other.
// It shows that the text computes the right thing; not races, speed, or what nvcc makes of it.
#ifndef FRAMEFUSE_TESTS_KERNELS_CUDA_EMULATION_H_
#define FRAMEFUSE_TESTS_KERNELS_CUDA_EMULATION_H_

#include <memory>

#include "backends/cuda_runtime/engine.h"

namespace framefuse::testing {

bool HostCompilerExists();

// Serves CPU tensors.
std::unique_ptr<cuda::Engine> MakeEmulatedEngine();

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_KERNELS_CUDA_EMULATION_H_
