#include "symbolic/ambient/torch_state.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

namespace framefuse {
namespace {
constexpr std::array<at::DeviceType, 2> kDevices = {at::kCPU, at::kCUDA};
}

TorchState TorchState::Current() {
  TorchState s;
  s.grad_enabled = c10::GradMode::is_enabled();
  s.autocast_cache = at::autocast::is_autocast_cache_enabled();
  s.autocast_nesting = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  for (std::size_t i = 0; i < kDevices.size(); ++i) {
    s.autocast[i].enabled = at::autocast::is_autocast_enabled(kDevices[i]);
    s.autocast[i].dtype = static_cast<int>(at::autocast::get_autocast_dtype(kDevices[i]));
  }
  s.ReadAttention();
  s.ReadBackends();
  return s;
}

void TorchState::ReadBackends() {
  const at::Context& context = at::globalContext();
  backends = {context.userEnabledCuDNN(),
              context.benchmarkCuDNN(),
              context.deterministicCuDNN(),
              context.userEnabledMkldnn(),
              context.deterministicMkldnn(),
              context.deterministicAlgorithms(),
              context.deterministicAlgorithmsWarnOnly(),
              context.deterministicFillUninitializedMemory(),
              context.allowFP16AccumulationCuBLAS()};
  default_dtype = static_cast<int>(c10::get_default_dtype_as_scalartype());
}

// Other threads read these: they are written where they differ.
void TorchState::ApplyToOperators() const {
  TorchState now;
  now.ReadBackends();
  if (now.default_dtype != default_dtype) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(default_dtype)));
  }
  if (now.backends == backends) return;
  at::Context& context = at::globalContext();
  context.setUserEnabledCuDNN(backends[0]);
  context.setBenchmarkCuDNN(backends[1]);
  context.setDeterministicCuDNN(backends[2]);
  context.setUserEnabledMkldnn(backends[3]);
  context.setDeterministicMkldnn(backends[4]);
  context.setDeterministicAlgorithms(backends[5], backends[6]);
  context.setDeterministicFillUninitializedMemory(backends[7]);
  context.setAllowFP16AccumulationCuBLAS(backends[8]);
}

void TorchState::ReadAttention() {
  at::Context& context = at::globalContext();
  attention = {context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(),
               context.userEnabledCuDNNSDP(), context.userEnabledOverrideableSDP()};
  const auto order = context.sDPPriorityOrder();
  static_assert(std::tuple_size_v<decltype(order)> == std::tuple_size_v<decltype(attention_order)>);
  std::transform(order.begin(), order.end(), attention_order.begin(),
                 [](at::SDPBackend backend) { return static_cast<std::int8_t>(backend); });
}

void TorchState::Apply() const {
  c10::GradMode::set_enabled(grad_enabled);
  at::autocast::set_autocast_cache_enabled(autocast_cache);
  int nesting = at::autocast::increment_nesting();
  for (at::autocast::decrement_nesting(), --nesting; nesting < autocast_nesting; ++nesting) {
    at::autocast::increment_nesting();
  }
  for (; nesting > autocast_nesting; --nesting) at::autocast::decrement_nesting();
  for (std::size_t i = 0; i < kDevices.size(); ++i) {
    at::autocast::set_autocast_enabled(kDevices[i], autocast[i].enabled);
    at::autocast::set_autocast_dtype(kDevices[i], static_cast<at::ScalarType>(autocast[i].dtype));
  }
  if (autocast_nesting == 0) at::autocast::clear_cache();
  ApplyAttention();
  ApplyToOperators();
}

// Other threads read these: they are written where they differ.
void TorchState::ApplyAttention() const {
  at::Context& context = at::globalContext();
  TorchState now;
  now.ReadAttention();
  if (now.attention != attention) {
    context.setSDPUseFlash(attention[0]);
    context.setSDPUseMemEfficient(attention[1]);
    context.setSDPUseMath(attention[2]);
    context.setSDPUseCuDNN(attention[3]);
    context.setSDPUseOverrideable(attention[4]);
  }
  if (now.attention_order != attention_order) {
    context.setSDPPriorityOrder(std::vector<std::int64_t>(attention_order.begin(), attention_order.end()));
  }
}

}  // namespace framefuse
