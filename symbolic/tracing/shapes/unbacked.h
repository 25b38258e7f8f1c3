// Sizes that the graph itself computes, of which shape functions ask as little as goes: a call with another answer runs
// as Python.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SHAPES_UNBACKED_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SHAPES_UNBACKED_H_

#include <c10/core/SymInt.h>

namespace framefuse::tracing {

[[nodiscard]] bool IsUnbacked(const c10::SymInt& size);
// The same in a backward pass, where nobody looks at the stride of a dimension of one element.
[[nodiscard]] bool IsUnbackedOfBackward(const c10::SymInt& size);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHAPES_UNBACKED_H_
