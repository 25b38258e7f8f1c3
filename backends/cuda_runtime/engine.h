// Engine: what compiles and launches kernels for CUDA tensors. There is one: the driver and NVRTC. Tests put another
// in its place that runs the same text on the CPU.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_ENGINE_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_ENGINE_H_

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "backends/cuda_runtime/program.h"

namespace framefuse::cuda {

class Engine {
 public:
  virtual ~Engine() = default;
  // Whether kernels for tensors of this device are this engine's, and can be made.
  virtual absl::Status Serves(c10::Device device) = 0;
  // How many multiprocessors the device has; the usual number where that is not known.
  virtual int Processors(c10::Device device) = 0;
  virtual absl::StatusOr<std::vector<std::shared_ptr<const CudaKernel>>> Compile(
      c10::Device device, absl::Span<const KernelRequest> requests) = 0;
  virtual absl::Status Launch(const CudaKernel& kernel, const emit::CudaLaunch& prepared, bool aligned,
                              void* const* buffers) = 0;
};

Engine& TheEngine();
void SetEngineForTesting(std::unique_ptr<Engine> engine);  // null: the own one again

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_ENGINE_H_
