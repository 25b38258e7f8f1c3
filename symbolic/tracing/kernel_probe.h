// Whether eager's CPU kernel takes operands of these types. Torch's metadata kernels do not ask; so the CPU kernel
// runs once for each combination of types, on tensors of one element.
// Invariant: only operators without state are run, and only where nothing but types and flags decides what happens.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_KERNEL_PROBE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_KERNEL_PROBE_H_

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

#include "backends/graph/op.h"

namespace framefuse::tracing {

// What the kernel says against operands of such types; nullopt: it takes them, or was not asked.
[[nodiscard]] std::optional<std::string> RefusedByKernel(ir::OpId op, c10::ArrayRef<c10::IValue> args);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_KERNEL_PROBE_H_
