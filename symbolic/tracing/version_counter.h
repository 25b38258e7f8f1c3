// Version counters of tensors: what autograd compares to find out that a saved tensor was written.
// A tensor, its views and what detach() makes of it have one; `x.data` shares memory and has its own.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_VERSION_COUNTER_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_VERSION_COUNTER_H_

#include <ATen/core/Tensor.h>

namespace framefuse::tracing {

inline c10::VariableVersion CounterOf(const at::Tensor& t) { return t.unsafeGetTensorImpl()->version_counter(); }

// Cannot be asked, so one is counted up for a moment.
inline bool ShareCounter(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_inference() || b.is_inference()) return a.is_same(b);
  c10::VariableVersion counter = CounterOf(a);
  const std::int64_t before = counter.current_version();
  const std::int64_t other = b._version();
  counter.set_version(before + 1);
  const bool shared = b._version() != other;
  counter.set_version(before);
  return shared;
}

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_VERSION_COUNTER_H_
