// The gradient of prod(). Its formula asks whether an element is zero. If none is it divides the result by each
// element, else it multiplies the other elements. Here it is told that none is, and the quotient that it computes next
// becomes one of the two, by a choice that stands in the graph. Invariant: what follows the question is that quotient,
// or the attempt breaks.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_PRODUCT_GRADIENT_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_PRODUCT_GRADIENT_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

class ProductGradient {
 public:
  // What nonzero() gives the formula, which asks where its mask is true. The quotient is expected then.
  // Undefined: it is not the formula that asks.
  at::Tensor AnswerNoZeros(Recorder& recorder, const at::Tensor& mask);
  // The same, where it asks for the number of zeros.
  [[nodiscard]] bool AsksForCountOfZeros(Recorder& recorder, const at::Tensor& count);
  // An operator of the formula that was expected; false: it is none.
  [[nodiscard]] bool Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);

 private:
  void Divide(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack);
  void Scale(torch::jit::Stack* stack);

  at::Tensor zeros_;   // how many there are of the product that is to be divided by its elements
  at::Tensor hidden_;  // of the product that is to be scaled: whether it has two zeros
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_PRODUCT_GRADIENT_H_
