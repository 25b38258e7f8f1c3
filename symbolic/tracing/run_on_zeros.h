// A CPU kernel is run on zeros of the operands' sizes and types, to see what it makes of them, or whether it refuses
// them. Invariant: no tensor of the program's is read or written, and nothing is run for tensors on a device.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RUN_ON_ZEROS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RUN_ON_ZEROS_H_

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

#include "backends/graph/op.h"

namespace framefuse::tracing {

// The arguments with zeros for traced tensors; nullopt where that is not possible, or would take much memory.
[[nodiscard]] std::optional<torch::jit::Stack> ZerosFor(c10::ArrayRef<c10::IValue> args);

// Whether it takes these operands, as far as zeros can tell.
[[nodiscard]] bool RunsOnZeros(ir::OpId op, c10::ArrayRef<c10::IValue> args);

bool AnyIsEmpty(c10::ArrayRef<c10::IValue> args);

// Why eager's kernel does not take these operands, of which some have no elements. No kernel for metadata asks all that
// a kernel with work to do asks of empty operands. nullopt: it takes them, or was not asked.
[[nodiscard]] std::optional<std::string> RefusalOfEmpties(ir::OpId op, c10::ArrayRef<c10::IValue> args);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RUN_ON_ZEROS_H_
