// framefuse::laid_out: a copy of a tensor in memory of its own with given strides, which are those of a dense tensor.
// No operator of ATen is told strides and values at once. Differentiable.
// Invariant: the values are the tensor's.
#ifndef FRAMEFUSE_BACKENDS_PASSES_LAID_OUT_H_
#define FRAMEFUSE_BACKENDS_PASSES_LAID_OUT_H_

#include "backends/graph/op.h"

namespace framefuse {

// (Tensor self, int[] stride) -> Tensor, registered at the first call.
ir::OpId LaidOut();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_LAID_OUT_H_
