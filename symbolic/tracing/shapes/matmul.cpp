// Matrix products. All outputs but those of grouped products are contiguous.
#include <algorithm>

#include "backends/graph/operators.h"
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

bool Holds(const c10::SymBool& fact) { return fact.guard_bool(__FILE__, __LINE__); }

bool IsGroupedType(c10::ScalarType type) {
  return type == c10::ScalarType::Float || type == c10::ScalarType::BFloat16 || type == c10::ScalarType::Half;
}

// A row or a column is dense, and the next one starts at a multiple of so many elements.
bool IsAlignedMatrix(const at::Tensor& t, std::int64_t alignment) {
  const std::int64_t last = t.dim() - 1;
  const auto holds_along = [&](std::int64_t dense, std::int64_t other) {
    const c10::SymInt length = t.sym_size(dense).max(1);
    return Holds(t.sym_stride(dense).sym_eq(1)) && Holds(t.sym_stride(other).sym_ge(length));
  };
  const bool by_column = holds_along(last - 1, last);
  if (!by_column && !holds_along(last, last - 1)) return false;
  const c10::SymInt stride = t.sym_stride(by_column ? last : last - 1);
  return Holds((stride % alignment).sym_eq(0));
}

// Products of groups of rows, of columns, or of what is summed over; where a group ends is in a tensor. Rows of the
// output start at multiples of 16 bytes.
bool GroupedMm(Arguments args, Outputs& outputs) {
  const at::Tensor& a = args[0].toTensor();
  const at::Tensor& b = args[1].toTensor();
  const at::Tensor* ends = OptionalTensor(args[2]);
  const c10::ScalarType type = a.scalar_type();
  const bool two = a.dim() == 2, other_two = b.dim() == 2;
  if ((!two && a.dim() != 3) || (!other_two && b.dim() != 3) || !IsGroupedType(type)) return false;
  if (b.scalar_type() != type || OptionalTensor(args[3]) != nullptr) return false;
  if (!args[4].isNone() && args[4].toScalarType() != type) return false;
  if ((ends != nullptr) != (two || other_two) || !Same(a.sym_size(-1), b.sym_size(-2))) return false;
  if (ends != nullptr && (ends->dim() != 1 || ends->scalar_type() != c10::ScalarType::Int)) return false;
  const auto alignment = static_cast<std::int64_t>(16 / c10::elementSize(type));
  if (!IsAlignedMatrix(a, alignment) || !IsAlignedMatrix(b, alignment)) return false;
  const std::optional<std::int64_t> columns = b.sym_size(-1).maybe_as_int();
  if (!columns) return false;
  const std::int64_t padded = (*columns + alignment - 1) / alignment * alignment;
  Dims sizes = {a.sym_size(-2), *columns};
  Dims strides = {padded, 1};
  const c10::SymInt groups = ends != nullptr ? ends->sym_size(0) : a.sym_size(0);
  if ((!two && !Same(a.sym_size(0), groups)) || (!other_two && !Same(b.sym_size(0), groups))) return false;
  if (two == other_two) {
    strides.insert(strides.begin(), sizes[0] * padded);
    sizes.insert(sizes.begin(), groups);
  }
  OutputMeta output;
  output.sizes = std::move(sizes);
  output.strides = std::move(strides);
  output.dtype = type;
  outputs.assign(1, std::move(output));
  return true;
}

// Each matrix column by column.
OutputMeta ByColumns(Dims sizes, c10::ScalarType type) {
  std::swap(sizes[sizes.size() - 2], sizes.back());
  OutputMeta m = Contiguous(std::move(sizes), type);
  std::swap(m.sizes[m.sizes.size() - 2], m.sizes.back());
  std::swap(m.strides[m.strides.size() - 2], m.strides.back());
  return m;
}

bool IsByColumns(const at::Tensor& t) {
  const OutputMeta m = ByColumns(ToDims(t.sym_sizes()), t.scalar_type());
  return std::equal(m.strides.begin(), m.strides.end(), t.sym_strides().begin());
}

// Square matrices, and as many others whose rows, or columns, they are for.
bool AreSystems(const at::Tensor& a, const at::Tensor& b, bool left) {
  const c10::ScalarType type = a.scalar_type();
  if (a.dim() < 2 || a.dim() != b.dim() || b.scalar_type() != type || a.device() != b.device()) return false;
  const c10::ScalarType real = c10::toRealValueType(type);
  if ((real != c10::ScalarType::Float && real != c10::ScalarType::Double) || b.sym_numel() == 0) return false;
  for (std::int64_t d = 0; d < a.dim() - 2; ++d) {
    if (a.sym_size(d) != b.sym_size(d)) return false;
  }
  return a.sym_size(-1) == a.sym_size(-2) && a.sym_size(-1) == b.sym_size(left ? -2 : -1);
}

// (self, B, *, upper, left, unitriangular)
bool SolveTriangular(Arguments args, Outputs& outputs) {
  const at::Tensor &a = args[0].toTensor(), &b = args[1].toTensor();
  if (!AreSystems(a, b, args[3].toBool())) return false;
  Dims sizes = ToDims(b.sym_sizes());
  // A conjugate by columns is read where it lies; torch makes the result by rows then.
  const bool by_rows = a.is_conj() && IsByColumns(a);
  outputs.assign(
      1, by_rows ? Contiguous(std::move(sizes), b.scalar_type()) : ByColumns(std::move(sizes), b.scalar_type()));
  return true;
}

// (LU, pivots, B, *, left, adjoint)
bool SolveFactored(Arguments args, Outputs& outputs) {
  const at::Tensor &a = args[0].toTensor(), &pivots = args[1].toTensor(), &b = args[2].toTensor();
  const bool left = args[3].toBool();
  if (!a.device().is_cpu() || a.is_complex() || !AreSystems(a, b, left) || pivots.scalar_type() != c10::ScalarType::Int)
    return false;
  if (pivots.sym_sizes() != a.sym_sizes().slice(0, a.sym_sizes().size() - 1)) return false;
  Dims sizes = ToDims(b.sym_sizes());
  outputs.assign(1,
                 left ? ByColumns(std::move(sizes), b.scalar_type()) : Contiguous(std::move(sizes), b.scalar_type()));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kLinalgSolveTriangular, SolveTriangular},
    {kLinalgLuSolve, SolveFactored},
    {kMm, Mm},
    {kAddmm, Addmm},
    {kBmm, Bmm},
    {kBaddbmm, Baddbmm},
    {kMv, Mv},
    {kDot, Dot},
    {k_GroupedMm, GroupedMm},
};

}  // namespace

c10::ArrayRef<ShapeRow> MatmulShapes() { return kRows; }

}  // namespace framefuse::tracing
