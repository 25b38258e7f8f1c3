// own_memory: gradients that a graph makes may share memory: views of one tangent. A leaf keeps a gradient that nobody
// else holds, views of it left out of account, and adds the next one in place: it would write another leaf's gradient.
// Eager escapes that where the tangent is an expanded number, whose strides no leaf keeps; a graph's tangents are
// dense. Invariant: no leaf keeps memory that another gradient or the program has.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_OWN_MEMORY_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_OWN_MEMORY_H_

#include <torch/csrc/autograd/function.h>

#include "absl/types/span.h"

namespace framefuse {

// Copies what shares memory with anything else.
void OwnMemory(torch::autograd::variable_list& gradients);
// The same for a gradient that goes to a leaf behind this edge and would be kept there.
void OwnMemoryOfLeaf(const torch::autograd::Edge& edge, at::Tensor& gradient);
// The same for gradients that go to a leaf behind one of these edges and would be kept there.
void OwnMemoryOfLeaves(absl::Span<const torch::autograd::Edge> edges, torch::autograd::variable_list& gradients);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_OWN_MEMORY_H_
