#include "backends/runtime/draw_operator.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <optional>
#include <string_view>

namespace framefuse {
namespace {

at::Tensor& Draw(at::Tensor& self, std::string_view kind, const c10::Scalar& first, const c10::Scalar& second) {
  if (kind == "bernoulli") return self.bernoulli_(first.toDouble());
  if (kind == "uniform") return self.uniform_(first.toDouble(), second.toDouble());
  TORCH_CHECK(kind == "normal", "framefuse::draw_: no such distribution: ", kind);
  return self.normal_(first.toDouble(), second.toDouble());
}

}  // namespace

void RegisterDrawOperator() {
  // Never destroyed: deregistration at exit would race with torch's own.
  static auto* const library = [] {
    auto* made = new torch::Library(torch::Library::FRAGMENT, "framefuse", std::nullopt, __FILE__, __LINE__);
    made->def("draw_(Tensor(a!) self, str kind, Scalar first, Scalar second) -> Tensor(a!)",
              {at::Tag::nondeterministic_seeded});
    made->impl("draw_", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(Draw)));
    return made;
  }();
  (void)library;
}

}  // namespace framefuse
