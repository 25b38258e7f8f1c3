// plain_numbers: code of torch's that takes no symbolic sizes, and raises an error that says so. Where it is the kernel
// of one operator the numbers among its arguments are pinned, and it runs again. Invariant: eager has no such errors,
// so that the program must not see one.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_PLAIN_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_PLAIN_NUMBERS_H_

#include <ATen/core/ivalue.h>

#include <optional>

#include "backends/graph/graph.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

bool IsSymbolicList(const c10::IValue& v);
// The value at hand of a symbolic number, or of a list with one among them, which is pinned; nothing: it is none.
std::optional<c10::IValue> Plain(const c10::IValue& v);

// Calls a composite kernel with the arguments on top of the stack. What it recorded before an error is dropped.
void CallComposite(const c10::KernelFunction& kernel, const OpTraits& traits, ir::Graph& graph,
                   torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_PLAIN_NUMBERS_H_
