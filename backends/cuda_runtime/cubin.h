// NVRTC: texts to cubins, from the cache (cubin_cache.h) where they are there. Several texts are compiled at a time,
// each on a thread of its own: NVRTC takes tens of milliseconds for a kernel. Its front end, some eight of them, runs
// for one program at a time; its optimizer and assembler run beside others'.
// Owner: backends/cuda_runtime.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace framefuse::cuda {

// In the order of the texts; the first error, if there is one. `architecture`: 90 for 9.0.
absl::StatusOr<std::vector<std::string>> CompileCubins(const std::vector<std::string>& texts, int architecture);

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_H_
