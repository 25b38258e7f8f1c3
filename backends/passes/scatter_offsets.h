// framefuse::scatter_offsets: a copy of a tensor with others' values at places that are counted from its first element.
// aten::as_strided_scatter counts from the beginning of the storage, and inputs begin elsewhere in each call. Laid out
// as its argument; differentiable.
#ifndef FRAMEFUSE_BACKENDS_PASSES_SCATTER_OFFSETS_H_
#define FRAMEFUSE_BACKENDS_PASSES_SCATTER_OFFSETS_H_

#include "backends/graph/op.h"

namespace framefuse {

// (Tensor self, Tensor src, int[] size, int[] stride, int offset) -> Tensor, registered at the first call.
ir::OpId ScatterOffsets();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_SCATTER_OFFSETS_H_
