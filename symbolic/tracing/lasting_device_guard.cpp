#include "symbolic/tracing/lasting_device_guard.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

namespace framefuse::tracing {

void EnsureLastingDeviceGuard() {
  auto& of_cuda = c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)];
  const c10::impl::DeviceGuardImplInterface* guard = of_cuda.load();
  if (guard == nullptr || guard->deviceCount() != 0) return;
  static const auto* const lasting = new c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>();
  of_cuda.store(lasting);
}

}  // namespace framefuse::tracing
