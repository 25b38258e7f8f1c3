// Views: the output shares the argument's storage.
#include <ATen/TensorUtils.h>

#include <algorithm>

#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"
#include "symbolic/tracing/shapes/unbacked.h"
#include "symbolic/tracing/size_node.h"

namespace framefuse::tracing {
namespace {

void EraseDim(OutputMeta* m, std::int64_t dim) {
  m->sizes.erase(m->sizes.begin() + dim);
  m->strides.erase(m->strides.begin() + dim);
}

bool Same(Arguments args, Outputs& outputs) {
  outputs.assign(1, AliasOf(args[0].toTensor(), 0));
  return true;
}

bool Transpose2d(Arguments args, Outputs& outputs) {
  if (args[0].toTensor().dim() > 2) return false;
  Same(args, outputs);
  std::reverse(outputs[0].sizes.begin(), outputs[0].sizes.end());
  std::reverse(outputs[0].strides.begin(), outputs[0].strides.end());
  return true;
}

bool Transpose(Arguments args, Outputs& outputs) {
  const std::int64_t rank = args[0].toTensor().dim();
  auto a = WrapDim(args[1].toInt(), rank);
  auto b = WrapDim(args[2].toInt(), rank);
  if (!a || !b) return false;
  Same(args, outputs);
  if (rank == 0) return true;
  std::swap(outputs[0].sizes[static_cast<std::size_t>(*a)], outputs[0].sizes[static_cast<std::size_t>(*b)]);
  std::swap(outputs[0].strides[static_cast<std::size_t>(*a)], outputs[0].strides[static_cast<std::size_t>(*b)]);
  return true;
}

bool Permute(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto order = args[1].toDimVector();
  if (static_cast<std::int64_t>(order.size()) != x.dim()) return false;
  Same(args, outputs);
  OutputMeta from = outputs[0];
  c10::SmallVector<bool, 8> seen(order.size(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto d = WrapDim(order[i], x.dim());
    if (!d || seen[static_cast<std::size_t>(*d)]) return false;
    seen[static_cast<std::size_t>(*d)] = true;
    outputs[0].sizes[i] = from.sizes[static_cast<std::size_t>(*d)];
    outputs[0].strides[i] = from.strides[static_cast<std::size_t>(*d)];
  }
  return true;
}

bool Unsqueeze(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto dim = WrapDim(args[1].toInt(), x.dim() + 1);
  if (!dim) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  const auto d = static_cast<std::size_t>(*dim);
  c10::SymInt stride = d < m.sizes.size() ? m.sizes[d] * m.strides[d] : c10::SymInt(1);
  m.sizes.insert(m.sizes.begin() + *dim, c10::SymInt(1));
  m.strides.insert(m.strides.begin() + *dim, std::move(stride));
  return true;
}

bool SqueezeDims(c10::ArrayRef<std::int64_t> dims, Arguments args, Outputs& outputs) {
  const std::int64_t rank = args[0].toTensor().dim();
  c10::SmallVector<std::int64_t, 5> wrapped;
  for (std::int64_t d : dims) {
    auto w = WrapDim(d, rank);
    if (!w) return false;
    wrapped.push_back(*w);
  }
  Same(args, outputs);
  if (rank == 0) return true;
  std::sort(wrapped.begin(), wrapped.end(), std::greater<>());
  for (std::int64_t d : wrapped) {
    if (outputs[0].sizes[static_cast<std::size_t>(d)] == 1) EraseDim(&outputs[0], d);
  }
  return true;
}

bool Squeeze(Arguments args, Outputs& outputs) {
  c10::SmallVector<std::int64_t, 5> all;
  for (std::int64_t d = 0; d < args[0].toTensor().dim(); ++d) all.push_back(d);
  return SqueezeDims(all, args, outputs);
}
bool SqueezeDim(Arguments args, Outputs& outputs) { return SqueezeDims({args[1].toInt()}, args, outputs); }
bool SqueezeDimList(Arguments args, Outputs& outputs) { return SqueezeDims(args[1].toDimVector(), args, outputs); }

// Fills in a -1 and checks the number of elements.
bool ResolveSizes(const at::Tensor& x, Dims* sizes) {
  int inferred = -1;
  c10::SymInt product = 1;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    const c10::SymInt& s = (*sizes)[i];
    if (s.maybe_as_int() == -1) {
      if (inferred >= 0) return false;
      inferred = static_cast<int>(i);
    } else {
      product = product * s;
    }
  }
  const c10::SymInt numel = x.sym_numel();
  if (inferred < 0) return product.sym_eq(numel).guard_bool(__FILE__, __LINE__);
  if (product == 0 || numel % product != 0) return false;
  (*sizes)[static_cast<std::size_t>(inferred)] = numel / product;
  return true;
}

bool ViewInto(Arguments args, int alias_of, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  Dims sizes = SymInts(args[1]);
  if (!ResolveSizes(x, &sizes)) return false;
  outputs.assign(1, AliasOf(x, alias_of));
  OutputMeta& m = outputs[0];
  // A contiguous tensor may have any strides for sizes of one, and they are kept.
  if (IsContiguous(x) && x.sym_strides() == c10::SymIntArrayRef(ContiguousStrides(x.sym_sizes()))) {
    m.strides = ContiguousStrides(sizes);
  } else {
    const at::SymDimVector shape(sizes.begin(), sizes.end());
    auto strides = at::detail::computeStride(x.sym_sizes(), x.sym_strides(), shape);
    if (!strides) return false;
    m.strides.assign(strides->begin(), strides->end());
  }
  m.sizes = std::move(sizes);
  return true;
}

bool View(Arguments args, Outputs& outputs) { return ViewInto(args, 0, outputs); }
// The schema hides that it is a view; the storage is shared none the less.
bool UnsafeView(Arguments args, Outputs& outputs) { return ViewInto(args, 0, outputs); }

bool ReshapeAlias(Arguments args, Outputs& outputs) {
  Same(args, outputs);
  outputs[0].sizes = SymInts(args[1]);
  outputs[0].strides = SymInts(args[2]);
  return true;
}

bool Expand(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  Dims sizes = SymInts(args[1]);
  const std::size_t rank = static_cast<std::size_t>(x.dim());
  if (sizes.size() < rank) return false;
  Dims strides(sizes.size(), c10::SymInt(0));
  const std::size_t lead = sizes.size() - rank;
  auto old_sizes = x.sym_sizes();
  auto old_strides = x.sym_strides();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const bool keep = sizes[i].maybe_as_int() == -1;
    if (i < lead) {
      if (keep) return false;
      strides[i] = 0;
      // As inferExpandGeometry: a new dimension that does not expand keeps the stride past the next one.
      if (!IsUnbackedOfBackward(sizes[i]) && IsOne(sizes[i]) && rank > 0) strides[i] = sizes[i + 1] * strides[i + 1];
      continue;
    }
    const c10::SymInt& old = old_sizes[i - lead];
    if (keep || sizes[i].sym_eq(old).guard_bool(__FILE__, __LINE__)) {
      sizes[i] = old;
      strides[i] = old_strides[i - lead];
    } else if (!IsOne(old)) {
      return false;
    }
  }
  Same(args, outputs);
  outputs[0].sizes = std::move(sizes);
  outputs[0].strides = std::move(strides);
  return true;
}

c10::SymInt ClampIndex(c10::SymInt i, const c10::SymInt& size) {
  if (i < 0) i = i + size;
  if (i < 0) return 0;
  if (i > size) return size;
  return i;
}

bool Slice(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto dim = WrapDim(args[1].toInt(), x.dim());
  if (!dim || x.dim() == 0) return false;
  const c10::SymInt step = args[4].toSymInt();
  if (step <= 0) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  const auto d = static_cast<std::size_t>(*dim);
  const c10::SymInt size = m.sizes[d];
  const c10::SymInt start = args[2].isNone() ? c10::SymInt(0) : ClampIndex(args[2].toSymInt(), size);
  c10::SymInt end = args[3].isNone() ? size : ClampIndex(args[3].toSymInt(), size);
  if (end < start) end = start;
  m.offset = m.offset + start * m.strides[d];
  m.sizes[d] = IsOne(step) ? end - start : (end - start + step - 1) / step;
  m.strides[d] = m.strides[d] * step;
  return true;
}

bool Select(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto dim = WrapDim(args[1].toInt(), x.dim());
  if (!dim || x.dim() == 0) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  const auto d = static_cast<std::size_t>(*dim);
  c10::SymInt index = args[2].toSymInt();
  if (index < 0) index = index + m.sizes[d];
  if (index < 0 || index >= m.sizes[d]) return false;
  m.offset = m.offset + index * m.strides[d];
  EraseDim(&m, *dim);
  return true;
}

bool AsStrided(Arguments args, Outputs& outputs) {
  Same(args, outputs);
  outputs[0].sizes = SymInts(args[1]);
  outputs[0].strides = SymInts(args[2]);
  if (!args[3].isNone()) outputs[0].offset = args[3].toSymInt();
  if (outputs[0].sizes.size() != outputs[0].strides.size()) return false;
  // Stays inside the storage, or eager raises.
  const at::Tensor& x = args[0].toTensor();
  c10::SymInt last = outputs[0].offset;
  for (std::size_t i = 0; i < outputs[0].sizes.size(); ++i) {
    if (outputs[0].sizes[i] < 0 || outputs[0].strides[i] < 0) return false;
    if (outputs[0].sizes[i] == 0) return true;
    last = last + (outputs[0].sizes[i] - 1) * outputs[0].strides[i];
  }
  return (last + 1) * static_cast<std::int64_t>(x.element_size()) <= x.storage().sym_nbytes();
}

// Pieces of `sizes[i]` along one dimension.
bool Pieces(Arguments args, std::int64_t dim, c10::ArrayRef<c10::SymInt> lengths, bool drop, Outputs& outputs) {
  const OutputMeta whole = AliasOf(args[0].toTensor(), 0);
  outputs.clear();
  c10::SymInt start = 0;
  const auto d = static_cast<std::size_t>(dim);
  for (const c10::SymInt& length : lengths) {
    OutputMeta piece = whole;
    piece.offset = whole.offset + start * whole.strides[d];
    piece.sizes[d] = length;
    if (drop) EraseDim(&piece, dim);
    outputs.push_back(std::move(piece));
    start = start + length;
  }
  return true;
}

bool Split(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto dim = WrapDim(args[2].toInt(), x.dim());
  if (!dim || x.dim() == 0) return false;
  const c10::SymInt step = args[1].toSymInt(), size = x.sym_size(*dim);
  if (step <= 0 || size <= 0) return false;
  // How many there are is a fact, how large they are is not.
  const std::int64_t whole = (HintOf(size) - 1) / HintOf(step);
  const c10::SymInt last = size - step * whole;
  if (last <= 0 || last > step) return false;
  Dims lengths(static_cast<std::size_t>(whole), step);
  lengths.push_back(last);
  return Pieces(args, *dim, lengths, /*drop=*/false, outputs);
}

bool SplitWithSizes(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto dim = WrapDim(args[2].toInt(), x.dim());
  if (!dim || x.dim() == 0) return false;
  Dims lengths = SymInts(args[1]);
  c10::SymInt sum = 0;
  for (const c10::SymInt& l : lengths) {
    if (l < 0) return false;
    sum = sum + l;
  }
  if (sum != x.sym_size(*dim)) return false;
  return Pieces(args, *dim, lengths, /*drop=*/false, outputs);
}

bool Unbind(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  auto dim = WrapDim(args[1].toInt(), x.dim());
  if (!dim || x.dim() == 0) return false;
  const std::int64_t size = x.sym_size(*dim).guard_int(__FILE__, __LINE__);
  return Pieces(args, *dim, Dims(static_cast<std::size_t>(size), c10::SymInt(1)), /*drop=*/true, outputs);
}

// (self, offset, dim1, dim2)
bool Diagonal(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const std::int64_t offset = args[1].toInt();
  const auto down = WrapDim(args[2].toInt(), x.dim()), across = WrapDim(args[3].toInt(), x.dim());
  if (x.dim() < 2 || !down || !across || *down == *across) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  const auto row = static_cast<std::size_t>(*down), column = static_cast<std::size_t>(*across);
  const c10::SymInt rows = offset < 0 ? m.sizes[row] + offset : m.sizes[row];
  const c10::SymInt columns = offset > 0 ? m.sizes[column] - offset : m.sizes[column];
  const c10::SymInt length = rows.min(columns);
  if (length <= 0) return false;
  m.offset = m.offset + (offset < 0 ? m.strides[row] * -offset : m.strides[column] * offset);
  const c10::SymInt stride = m.strides[row] + m.strides[column];
  EraseDim(&m, std::max(*down, *across));
  EraseDim(&m, std::min(*down, *across));
  m.sizes.push_back(length);
  m.strides.push_back(stride);
  return true;
}

bool ViewAsReal(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!x.is_complex() || x.is_conj()) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  for (c10::SymInt& stride : m.strides) stride = stride * 2;
  m.sizes.emplace_back(2);
  m.strides.emplace_back(1);
  m.offset = m.offset * 2;
  m.dtype = c10::toRealValueType(x.scalar_type());
  return true;
}

bool ViewAsComplex(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!c10::isFloatingType(x.scalar_type()) || x.scalar_type() == c10::ScalarType::BFloat16 || x.dim() == 0)
    return false;
  if (x.sym_size(-1) != 2 || x.sym_stride(-1) != 1 || x.sym_storage_offset() % 2 != 0) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  EraseDim(&m, x.dim() - 1);
  for (c10::SymInt& stride : m.strides) {
    if (stride % 2 != 0) return false;
    stride = stride / 2;
  }
  m.offset = m.offset / 2;
  m.dtype = c10::toComplexType(x.scalar_type());
  return true;
}

// (self, dimension, size, step)
bool Unfold(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const auto dim = WrapDim(args[1].toInt(), x.dim());
  const std::int64_t size = args[2].toInt(), step = args[3].toInt();
  if (!dim || x.dim() == 0 || size < 0 || step < 1) return false;
  Same(args, outputs);
  OutputMeta& m = outputs[0];
  const auto d = static_cast<std::size_t>(*dim);
  if (m.sizes[d] < size) return false;
  const c10::SymInt stride = m.strides[d];
  m.sizes[d] = (m.sizes[d] - size) / step + 1;
  m.strides[d] = stride * step;
  m.sizes.emplace_back(size);
  m.strides.push_back(stride);
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kDetach, Same},
    {kAlias, Same},
    {kT, Transpose2d},
    {kTransposeInt, Transpose},
    {kPermute, Permute},
    {kUnsqueeze, Unsqueeze},
    {kSqueeze, Squeeze},
    {kSqueezeDim, SqueezeDim},
    {kSqueezeDims, SqueezeDimList},
    {kView, View},
    {k_UnsafeView, UnsafeView},
    {k_ReshapeAlias, ReshapeAlias},
    {kExpand, Expand},
    {kSliceTensor, Slice},
    {kSelectInt, Select},
    {kAsStrided, AsStrided},
    {kSplitTensor, Split},
    {kSplitWithSizes, SplitWithSizes},
    {kUnbindInt, Unbind},
    {kDiagonal, Diagonal},
    {kUnfold, Unfold},
    {kViewAsReal, ViewAsReal},
    {kViewAsComplex, ViewAsComplex},
};

}  // namespace

c10::ArrayRef<ShapeRow> ViewShapes() { return kRows; }

}  // namespace framefuse::tracing
