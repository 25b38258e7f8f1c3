#include "backends/runtime/generator_states.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/cat.h>

#include <mutex>
#include <vector>

namespace framefuse {
namespace {

at::Generator GeneratorOf(std::int64_t device) {
  if (device < 0) return at::detail::getDefaultCPUGenerator();
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return at::globalContext().defaultGenerator(
      c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)));
}

at::Tensor StateOf(std::int64_t device) {
  at::Generator generator = GeneratorOf(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

constexpr std::int64_t kCudaState = 16;  // seed and offset

}  // namespace

std::int64_t SizeOfStates(c10::IntArrayRef devices) {
  static const std::int64_t cpu = StateOf(-1).numel();
  std::int64_t size = 0;
  for (const std::int64_t d : devices) size += d < 0 ? cpu : kCudaState;
  return size;
}

at::Tensor StatesOfGenerators(c10::IntArrayRef devices) {
  std::vector<at::Tensor> states;
  for (const std::int64_t d : devices) states.push_back(StateOf(d));
  at::Tensor all = at::cat(states);
  TORCH_CHECK(all.numel() == SizeOfStates(devices), "the state of a generator has another size than expected");
  return all;
}

void SetGenerators(c10::IntArrayRef devices, const at::Tensor& states) {
  std::int64_t from = 0;
  for (const std::int64_t d : devices) {
    at::Generator generator = GeneratorOf(d);
    const std::int64_t size = SizeOfStates({d});
    const std::lock_guard lock(generator.mutex());
    generator.set_state(states.narrow(0, from, size).clone());
    from += size;
  }
}

}  // namespace framefuse
