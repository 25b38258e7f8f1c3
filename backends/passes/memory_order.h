// How a value lies in memory, as far as a write into it must know: places that it has twice, the order in which random
// numbers are drawn for it. Answers hold for all values of its symbols.
#ifndef FRAMEFUSE_BACKENDS_PASSES_MEMORY_ORDER_H_
#define FRAMEFUSE_BACKENDS_PASSES_MEMORY_ORDER_H_

#include "backends/graph/graph.h"

namespace framefuse {

// Strides of sizes of one reach nothing.
bool ReachSameOffsets(const ir::Value& a, const ir::Value& b);

// The strides that an operator gives for the sizes at hand: what is dense is so, in this order, for all sizes.
void TakeStrides(ir::ExprTable& exprs, ir::Value& v, at::IntArrayRef strides);

// Whether two elements may be at one place: also where the ranges of its symbols do not say.
bool MayOverlap(ir::ExprTable& exprs, const ir::Value& v);

// Whether an in-place draw of bernoulli on a strided tensor goes through it in the order of its memory. Kernels for
// some processors go through a row-major copy instead, so it is tried out once.
bool RandomFollowsMemory(c10::Device device);

// Whether normal_ draws other numbers for it than for a tensor without gaps: on the CPU many numbers for a contiguous
// one are drawn at once.
bool DrawsInMemoryOrder(ir::ExprTable& exprs, const ir::Value& target);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_MEMORY_ORDER_H_
