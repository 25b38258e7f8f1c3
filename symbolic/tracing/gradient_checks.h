// Backward formulas that raise where a loss depends on what a decomposition leaves open: the phase of its vectors. What
// they ask of values becomes a node of the graph that raises, in their words, before anything is computed that follows.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_GRADIENT_CHECKS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_GRADIENT_CHECKS_H_

#include <ATen/core/stack.h>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

// Of torch.allclose in such a formula: true, and the graph checks it. False: it is another one's.
[[nodiscard]] bool AnswerGradientCheck(Recorder& recorder, torch::jit::Stack* stack);

// The first operand of what the formula calls next goes through the check that waits.
void TieGradientCheck(Recorder& recorder, torch::jit::Stack* stack, const OpTraits& traits);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_GRADIENT_CHECKS_H_
