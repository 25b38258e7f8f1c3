// The gradient of prod(). Its formula asks whether an element is zero. If none is it divides the result by each
// element, else it multiplies the other elements. Here it is told that none is, and the quotient that it computes next
// becomes one of the two, by a choice that stands in the graph. Invariant: what follows the question is that quotient,
// or the attempt breaks.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_PRODUCT_GRADIENT_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_PRODUCT_GRADIENT_H_

#include <ATen/core/Tensor.h>

namespace framefuse::tracing {

class Recorder;

// What nonzero() gives the formula, which asks where its mask is true. The recorder expects the quotient then.
// Undefined: it is not the formula that asks.
at::Tensor AnswerNoZeros(Recorder& recorder, const at::Tensor& mask);
// The same, where it asks for the number of zeros.
bool AsksForCountOfZeros(Recorder& recorder, const at::Tensor& count);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_PRODUCT_GRADIENT_H_
