// Operators that write their results into given tensors (`out=`), where the one that makes them can be recorded:
// torch's functions give such operators empty tensors of their own, to be resized, and metadata of some is only known
// of the other form. What it makes stands for the empty tensors from then on, and is copied into all others.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RESULTS_INTO_ARGUMENTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RESULTS_INTO_ARGUMENTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

// Made in this recording, without elements, and no other value has its memory: nobody sees that it is resized.
bool IsNewAndEmpty(Recorder& recorder, const at::Tensor& t);

// False: it is recorded as it is.
[[nodiscard]] bool RecordIntoArguments(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RESULTS_INTO_ARGUMENTS_H_
