// Whether eager's CPU kernel takes operands of these types. Torch's metadata kernels do not ask; so the CPU kernel
// runs once for each combination of types, on tensors of one element.
// Invariant: only operators without state are run, and only where nothing but types and flags decides what happens.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_KERNEL_PROBE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_KERNEL_PROBE_H_

#include <ATen/core/ivalue.h>

#include <exception>
#include <optional>
#include <string>

#include "backends/graph/op.h"

namespace framefuse::tracing {

struct KernelAnswer {
  std::optional<std::string> refusal;  // nullopt: it takes operands of such types, or was not asked
  std::exception_ptr error;            // with a refusal
  std::optional<std::string> warning;  // what it warned of
};
[[nodiscard]] KernelAnswer AskKernel(ir::OpId op, c10::ArrayRef<c10::IValue> args);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_KERNEL_PROBE_H_
