#include "symbolic/ambient/torch_state.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

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
  return s;
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
}

}  // namespace framefuse
