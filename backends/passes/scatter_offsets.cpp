#include "backends/passes/scatter_offsets.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "backends/graph/operators.h"

namespace framefuse {
namespace {

at::Tensor Scatter(const at::Tensor& self, const at::Tensor& src, at::IntArrayRef size, at::IntArrayRef stride,
                   std::int64_t offset) {
  at::Tensor out = at::empty_strided(self.sizes(), self.strides(), self.options()).copy_(self);
  out.as_strided(size, stride, offset).copy_(src);
  return out;
}

}  // namespace

ir::OpId ScatterOffsets() {
  static const ir::OpId op = [] {
    // Never destroyed: deregistration at exit would race with torch's own.
    static auto* const library =
        new torch::Library(torch::Library::FRAGMENT, "framefuse", std::nullopt, __FILE__, __LINE__);
    library->def("scatter_offsets(Tensor self, Tensor src, int[] size, int[] stride, int offset) -> Tensor");
    library->impl("scatter_offsets", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(Scatter)));
    return ir::RequireOp(ir::OpName::kScatterOffsets);
  }();
  return op;
}

}  // namespace framefuse
