// Version counters of tensors: what autograd compares to find out that a saved tensor was written.
// A tensor, its views and what detach() makes of it have one; `x.data` shares memory and has its own. Setting `x.data`
// leaves the counter: two tensors may count together and share no memory.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_VERSION_COUNTER_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_VERSION_COUNTER_H_

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace framefuse::tracing {

inline c10::VariableVersion CounterOf(const at::Tensor& t) { return t.unsafeGetTensorImpl()->version_counter(); }

// The same for tensors that count together; null: it counts nothing.
const void* PlaceOfCounter(const at::Tensor& t);
bool ShareCounter(const at::Tensor& a, const at::Tensor& b);
bool SameCounter(const c10::VariableVersion& a, const c10::VariableVersion& b);  // no: one counts nothing

// Whether one of `written` counts together with one of the `count` tensors that has other memory.
bool CountWithOtherMemory(absl::Span<const std::size_t> written, std::size_t count,
                          absl::FunctionRef<const at::Tensor&(std::size_t)> tensor);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_VERSION_COUNTER_H_
