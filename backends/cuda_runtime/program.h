// Kernels on a device out of kernels of the IR, by way of PTX where it can be printed and assembled, else of CUDA C++:
// then those of a graph are shared out to about as many NVRTC programs as there are processors (cubin.h). Equal bodies
// are compiled once in a process (per device), programs once on a machine.
// Invariant: a CudaKernel is immutable and thread-safe; its module lives as long as a kernel of it.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_PROGRAM_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/cuda_runtime/driver.h"
#include "backends/emit/cuda/form.h"

namespace framefuse::cuda {

// A module loaded in a device's context.
class LoadedModule {
 public:
  static absl::StatusOr<std::shared_ptr<const LoadedModule>> Load(const Device& device, const std::string& cubin);
  ~LoadedModule();
  absl::StatusOr<Function> Get(const std::string& name) const;

 private:
  const Device* device_ = nullptr;
  Module module_ = nullptr;
};

struct CudaKernel {
  kernel_ir::Kernel ir;
  emit::CudaForm form;
  std::string name, text;  // CUDA C++, also where PTX was assembled
  const Device* device = nullptr;
  std::shared_ptr<const LoadedModule> module;
  Function function = nullptr;
};

struct KernelRequest {
  const kernel_ir::Kernel* kernel = nullptr;
  emit::CudaForm form;
};
// Whether anybody is there who makes kernels: NVRTC all of them, nvJitLink those that are printed as PTX.
absl::Status CanCompile(int device);
// One kernel for each request.
absl::StatusOr<std::vector<std::shared_ptr<const CudaKernel>>> CompileKernels(int device,
                                                                              absl::Span<const KernelRequest> requests);

// On torch's current stream. `aligned`: as emit::IsAligned says.
absl::Status LaunchOn(const CudaKernel& kernel, const emit::CudaLaunch& prepared, bool aligned, void* const* buffers);

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_PROGRAM_H_
