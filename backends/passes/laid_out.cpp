#include "backends/passes/laid_out.h"

#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

namespace framefuse {
namespace {

at::Tensor LayOut(const at::Tensor& self, at::IntArrayRef stride) {
  return at::empty_strided(self.sizes(), stride, self.options()).copy_(self);
}

}  // namespace

ir::OpId LaidOut() {
  static const ir::OpId op = [] {
    // Never destroyed: deregistration at exit would race with torch's own.
    static auto* const library =
        new torch::Library(torch::Library::FRAGMENT, "framefuse", std::nullopt, __FILE__, __LINE__);
    library->def("laid_out(Tensor self, int[] stride) -> Tensor");
    library->impl("laid_out", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(LayOut)));
    return ir::RequireOp("framefuse.laid_out");
  }();
  return op;
}

}  // namespace framefuse
