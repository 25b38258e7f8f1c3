// GradientFormulas: torch's formulas of derivatives that ask for values and get an answer that holds for none of them.
// What the formula computes next becomes what holds for all.
// Invariant: what follows such a question is what the formula is known to do, or the attempt breaks.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_GRADIENT_FORMULAS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_GRADIENT_FORMULAS_H_

#include <ATen/core/stack.h>

#include "symbolic/tracing/cumulative_product_gradient.h"
#include "symbolic/tracing/extremum_gradient.h"
#include "symbolic/tracing/op_traits.h"
#include "symbolic/tracing/product_gradient.h"

namespace framefuse::tracing {

class Recorder;

class GradientFormulas {
 public:
  ExtremumGradient& extremum() { return extremum_; }
  ProductGradient& product() { return product_; }
  CumulativeProductGradient& cumulative_product() { return cumulative_product_; }

  // An operator that a formula under way was expected to call; false: it is recorded as it is.
  [[nodiscard]] bool Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack) {
    return extremum_.Continue(recorder, traits, stack) || product_.Continue(recorder, traits, stack) ||
           cumulative_product_.Continue(recorder, traits, stack);
  }

 private:
  ExtremumGradient extremum_;
  ProductGradient product_;
  CumulativeProductGradient cumulative_product_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_GRADIENT_FORMULAS_H_
