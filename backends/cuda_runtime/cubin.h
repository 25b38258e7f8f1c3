// Texts to cubins: CUDA C++ by NVRTC, PTX by nvJitLink (linker.h), from the disk cache where they are there.
// Several are made at a time, each on a thread of its own: NVRTC takes tens of milliseconds for a kernel. Its front
// end, some eight of them, runs for one program at a time; its optimizer, and the assembler, run beside others'.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace framefuse::cuda {

struct CubinSource {
  std::string text;
  bool ptx = false;
};

// In the order of the sources. `architecture`: 90 for 9.0.
std::vector<absl::StatusOr<std::string>> CompileCubins(const std::vector<CubinSource>& sources, int architecture);

// How many are made at a time.
std::size_t MostCubinsAtATime();

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_H_
