// The gradient of cumprod(). Its formula asks whether an element is zero. If none is it divides by each element, else
// it goes by the places of the zeros. Here it is told that none is, and the quotient that it computes next becomes what
// serves both. Invariant: what follows the question are the operators of that quotient, or the attempt breaks.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_CUMULATIVE_PRODUCT_GRADIENT_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_CUMULATIVE_PRODUCT_GRADIENT_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "backends/graph/graph.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

// Whether it is the formula that asks for a length, which it compares with 1 alone: it is more, which is a fact.
[[nodiscard]] bool AsksForSeveral(Recorder& recorder, ir::Dim size);

class CumulativeProductGradient {
 public:
  // Whether it is the formula that asks for the truth of `any`. The quotient is expected then.
  [[nodiscard]] bool AsksForAnyZero(Recorder& recorder, const at::Tensor& any);
  // An operator while the quotient is expected; false: it is recorded as it is.
  [[nodiscard]] bool Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);

 private:
  ir::ValueId is_zero_ = ir::kNoValue;  // of the input whose quotient is expected
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_CUMULATIVE_PRODUCT_GRADIENT_H_
