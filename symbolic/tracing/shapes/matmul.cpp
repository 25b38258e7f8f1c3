// Matrix products: contiguous outputs.
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

bool Same(const c10::SymInt& a, const c10::SymInt& b) { return a.sym_eq(b).guard_bool(__FILE__, __LINE__); }

bool SameTypeAndRank(const at::Tensor& a, const at::Tensor& b, std::int64_t rank) {
  return a.dim() == rank && b.dim() == rank && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

bool Emit(Dims sizes, c10::ScalarType dtype, Outputs& outputs) {
  outputs.assign(1, Contiguous(std::move(sizes), dtype));
  return true;
}

bool Mm(Arguments args, Outputs& outputs) {
  const at::Tensor& a = args[0].toTensor();
  const at::Tensor& b = args[1].toTensor();
  if (!SameTypeAndRank(a, b, 2) || !Same(a.sym_size(1), b.sym_size(0))) return false;
  return Emit({a.sym_size(0), b.sym_size(1)}, a.scalar_type(), outputs);
}

bool ExpandsTo(const at::Tensor& t, const Dims& sizes) {
  if (t.dim() > static_cast<std::int64_t>(sizes.size())) return false;
  Dims wide;
  if (!Broadcast(t.sym_sizes(), sizes, &wide)) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!Same(wide[i], sizes[i])) return false;
  }
  return true;
}

bool Addmm(Arguments args, Outputs& outputs) {
  const at::Tensor& bias = args[0].toTensor();
  const at::Tensor& a = args[1].toTensor();
  const at::Tensor& b = args[2].toTensor();
  if (!SameTypeAndRank(a, b, 2) || !Same(a.sym_size(1), b.sym_size(0))) return false;
  Dims sizes = {a.sym_size(0), b.sym_size(1)};
  if (bias.scalar_type() != a.scalar_type() || !ExpandsTo(bias, sizes)) return false;
  return Emit(std::move(sizes), a.scalar_type(), outputs);
}

bool Bmm(Arguments args, Outputs& outputs) {
  const at::Tensor& a = args[0].toTensor();
  const at::Tensor& b = args[1].toTensor();
  if (!SameTypeAndRank(a, b, 3)) return false;
  if (!Same(a.sym_size(0), b.sym_size(0)) || !Same(a.sym_size(2), b.sym_size(1))) return false;
  return Emit({a.sym_size(0), a.sym_size(1), b.sym_size(2)}, a.scalar_type(), outputs);
}

bool Baddbmm(Arguments args, Outputs& outputs) {
  const at::Tensor& bias = args[0].toTensor();
  if (!Bmm(args.slice(1), outputs)) return false;
  return bias.scalar_type() == outputs[0].dtype && ExpandsTo(bias, outputs[0].sizes);
}

bool Mv(Arguments args, Outputs& outputs) {
  const at::Tensor& a = args[0].toTensor();
  const at::Tensor& x = args[1].toTensor();
  if (a.dim() != 2 || x.dim() != 1 || a.scalar_type() != x.scalar_type()) return false;
  if (!Same(a.sym_size(1), x.sym_size(0))) return false;
  return Emit({a.sym_size(0)}, a.scalar_type(), outputs);
}

bool Dot(Arguments args, Outputs& outputs) {
  const at::Tensor& a = args[0].toTensor();
  const at::Tensor& b = args[1].toTensor();
  if (!SameTypeAndRank(a, b, 1) || !Same(a.sym_size(0), b.sym_size(0))) return false;
  return Emit({}, a.scalar_type(), outputs);
}

constexpr ShapeRow kRows[] = {
    {"aten::mm", Mm},           {"aten::addmm", Addmm}, {"aten::bmm", Bmm},
    {"aten::baddbmm", Baddbmm}, {"aten::mv", Mv},       {"aten::dot", Dot},
};

}  // namespace

c10::ArrayRef<ShapeRow> MatmulShapes() { return kRows; }

}  // namespace framefuse::tracing
