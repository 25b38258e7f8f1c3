// What an operator really gave, beside what the graph says of it: passes drop and merge views by what the graph says.
// Asked for by config().verify_metadata. Invariant: it reads and changes nothing but the status.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_LAYOUT_CHECK_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_LAYOUT_CHECK_H_

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

// `results` are the values of a node that has just run, or ir::kNoValue; `slots` hold what each value is, and `exprs`
// the numbers of the graph's expressions.
[[nodiscard]] absl::Status CheckLayouts(const ir::Graph& graph, absl::Span<const ir::ValueId> results,
                                        absl::Span<const c10::IValue> slots, absl::Span<const std::int64_t> exprs);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_LAYOUT_CHECK_H_
