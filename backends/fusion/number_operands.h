// UseNumberOperands: a symbolic number that torch made a tensor of (x * n) is a number again, which a kernel takes as
// an argument: x * n is one kernel on any device, and no tensor of n is made. Invariant: only the overload of an
// operator changes, never what it computes.
#ifndef FRAMEFUSE_BACKENDS_FUSION_NUMBER_OPERANDS_H_
#define FRAMEFUSE_BACKENDS_FUSION_NUMBER_OPERANDS_H_

#include "absl/status/statusor.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

absl::StatusOr<bool> UseNumberOperands(ir::Graph& graph);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_NUMBER_OPERANDS_H_
