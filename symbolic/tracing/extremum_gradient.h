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
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

class ExtremumGradient {
 public:
  // Whether it is the formula that asks whether the result is NaN. It compares with the result next, and a NaN is to
  // equal a NaN.
  [[nodiscard]] bool AsksForNan(Recorder& recorder, const at::Tensor& question);
  bool expects_comparison() const { return compared_ != ir::kNoValue; }
  // The comparison, where it is expected; false: it is not.
  [[nodiscard]] bool Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);

 private:
  ir::ValueId compared_ = ir::kNoValue;
};

// Whether it is the formula that asks for the sizes of a value, for ZerosOfInput.
bool AsksForZerosOf(Recorder& recorder, ir::ValueId value);
// For new_zeros: a special operator (op_traits.h), which only changes the sizes.
bool ZerosOfInput(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_EXTREMUM_GRADIENT_H_
