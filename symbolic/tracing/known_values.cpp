#include "symbolic/tracing/known_values.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "symbolic/tracing/value_slice.h"

namespace framefuse::tracing {

std::optional<at::Tensor> KnownValue(Recorder& recorder, const at::Tensor& fake) {
  const FakeImpl* impl = AsFake(fake);
  if (impl == nullptr || impl->recording() != recorder.id() || recorder.phase != ir::Phase::kForward ||
      fake.is_conj() || fake.is_neg()) {
    return std::nullopt;
  }
  const std::optional<ValueSlice> slice = ValueSlice::Of(recorder.graph(), {impl->value()}, SliceLimits());
  if (!slice) return std::nullopt;
  const TlsScope off(nullptr);
  const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
  try {
    std::optional<std::vector<at::Tensor>> values = slice->Run({});
    return values ? std::optional<at::Tensor>(values->front()) : std::nullopt;
  } catch (const c10::Error&) {  // eager raised it where the operator stands, not where its result is read
    return std::nullopt;
  }
}

}  // namespace framefuse::tracing
