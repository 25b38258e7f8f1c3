// The gradient of max(), min() and median() of all elements. On the CPU its formula asks whether the result is NaN, and
// for the input's sizes as plain numbers, to make zeros of. Here it is told that it is none, its comparison becomes one
// that holds for both, and the zeros are of the input's sizes, symbolic or not.
// Invariant: what follows the questions is that formula, or the attempt breaks.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_EXTREMUM_GRADIENT_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_EXTREMUM_GRADIENT_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "backends/graph/graph.h"

namespace framefuse::tracing {

class Recorder;

// Of the question whether the result is NaN: the result. kNoValue: it is not the formula that asks.
ir::ValueId ResultAskedAbout(Recorder& recorder, const at::Tensor& question);
// Whether it is the formula that asks for the sizes of a value, for ZerosOfInput.
bool AsksForZerosOf(Recorder& recorder, ir::ValueId value);
// For new_zeros: a special operator (op_traits.h), which only changes the sizes.
bool ZerosOfInput(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_EXTREMUM_GRADIENT_H_
