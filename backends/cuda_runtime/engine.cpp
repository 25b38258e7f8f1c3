#include "backends/cuda_runtime/engine.h"

namespace framefuse::cuda {
namespace {

class DriverEngine final : public Engine {
 public:
  absl::Status Serves(c10::Device device) override {
    if (!device.is_cuda()) return absl::UnimplementedError("no CUDA device");
    return CanCompile(device.index());
  }
  int Processors(c10::Device device) override {
    const absl::StatusOr<const Device*> on = GetDevice(device.index());
    return on.ok() ? (*on)->processors : emit::kUsualProcessors;
  }
  absl::StatusOr<std::vector<std::shared_ptr<const CudaKernel>>> Compile(
      c10::Device device, absl::Span<const KernelRequest> requests) override {
    return CompileKernels(device.index(), requests);
  }
  absl::Status Launch(const CudaKernel& kernel, const emit::CudaLaunch& prepared, bool aligned,
                      void* const* buffers) override {
    return LaunchOn(kernel, prepared, aligned, buffers);
  }
};

std::unique_ptr<Engine>& Slot() {
  static auto* slot = new std::unique_ptr<Engine>(new DriverEngine);
  return *slot;
}

}  // namespace

Engine& TheEngine() { return *Slot(); }

void SetEngineForTesting(std::unique_ptr<Engine> engine) {
  Slot() = engine != nullptr ? std::move(engine) : std::make_unique<DriverEngine>();
}

}  // namespace framefuse::cuda
