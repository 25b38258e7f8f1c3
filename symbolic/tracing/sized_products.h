// sized_products: torch.matmul where a size is symbolic, as the operators that torch calls for it, in its order.
// Torch's own code takes sizes as plain numbers before 2.13, and so does all that calls it: linear(), attention, other
// code in C++. Autograd's key has that code, above the recorder's: a key that is set while a recorder is current comes
// first. Invariant: a product that is not written here is torch's own, and so are the errors of sizes that do not fit.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SIZED_PRODUCTS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SIZED_PRODUCTS_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace framefuse::tracing {

// Whether torch's code is replaced in recordings that begin from now on. At first: where this torch needs it.
void ReplaceSizedProducts(bool replace);
// Sets the key on this thread, and has it as it was at its end.
class SizedProductsScope {
 public:
  explicit SizedProductsScope(bool recording);
  ~SizedProductsScope();
  SizedProductsScope(const SizedProductsScope&) = delete;
  SizedProductsScope& operator=(const SizedProductsScope&) = delete;

 private:
  bool previous_;
};

// Nothing: the two have no dimension for a list of matrices, or sizes that do not fit.
std::optional<at::Tensor> MultiplyAsTorch(const at::Tensor& left, const at::Tensor& right);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SIZED_PRODUCTS_H_
