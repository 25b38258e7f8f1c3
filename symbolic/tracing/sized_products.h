// sized_products: torch.matmul where a size is symbolic, as the operators that torch calls for it, in its order.
// Torch's own code takes sizes as plain numbers before 2.13, and so does all that calls it: linear(), attention, other
// code in C++. Invariant: a product that is not written here is torch's own, and so are the errors of sizes that do not
// fit.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SIZED_PRODUCTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SIZED_PRODUCTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

// Whether torch's code is replaced. At first: where this torch needs it.
void ReplaceSizedProducts(bool replace);

// Nothing: the two have no dimension for a list of matrices, or sizes that do not fit.
std::optional<at::Tensor> MultiplyAsTorch(const at::Tensor& left, const at::Tensor& right);

// matmul of the two tensors on top of the stack, whose product takes their place. False: nothing is done.
[[nodiscard]] bool RecordSizedProduct(const OpTraits& traits, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SIZED_PRODUCTS_H_
