// known_values: the values of a traced tensor that follow from constants of the graph alone: torch.arange(3),
// torch.tensor([1, 2]).sum(), torch.rand([]) < 0. What a program reads of them is as literal as the numbers that they
// were made of. Invariant: nothing is known of a tensor that anything but listed operators, which are determined by
// their arguments, had part in, or, of a draw, of more than its bounds. The recording is not changed.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_KNOWN_VALUES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_KNOWN_VALUES_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// Computed on the CPU; only while the forward is recorded.
std::optional<at::Tensor> KnownValue(Recorder& recorder, const at::Tensor& fake);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_KNOWN_VALUES_H_
