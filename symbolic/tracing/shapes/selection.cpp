// Orders and selections (median, kthvalue, gather …), bags, draws, distances, and Fourier transforms.
#include <algorithm>

#include "backends/graph/operators.h"
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

bool IsFloat(const at::Tensor& x) { return c10::isFloatingType(x.scalar_type()); }

bool IsNumber(const at::Tensor& x) { return IsFloat(x) || c10::isIntegralType(x.scalar_type(), /*includeBool=*/false); }

// Values and their places, with one dimension left out, or of one.
bool ValuesAndPlaces(const at::Tensor& x, std::int64_t raw, bool keep, Outputs& outputs) {
  const auto dim = WrapDim(raw, x.dim());
  if (!dim || x.dim() == 0 || !IsNumber(x) || x.sym_numel() == 0) return false;
  Dims sizes = ToDims(x.sym_sizes());
  if (keep) {
    sizes[static_cast<std::size_t>(*dim)] = 1;
  } else {
    sizes.erase(sizes.begin() + *dim);
  }
  outputs.assign(2, Contiguous(std::move(sizes), x.scalar_type()));
  outputs[1].dtype = c10::ScalarType::Long;
  return true;
}

// (self, dim, keepdim)
bool SelectOne(Arguments args, Outputs& outputs) {
  return ValuesAndPlaces(args[0].toTensor(), args[1].toInt(), args[2].toBool(), outputs);
}

// (self, k, dim, keepdim)
bool KthValue(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!ValuesAndPlaces(x, args[2].toInt(), args[3].toBool(), outputs)) return false;
  const c10::SymInt k = args[1].toSymInt();
  return k >= 1 && k <= x.sym_size(args[2].toInt());
}

// (self, k, dim, largest, sorted)
bool TopK(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const auto dim = WrapDim(args[2].toInt(), x.dim());
  const c10::SymInt count = args[1].toSymInt();
  if (!dim || x.dim() == 0 || !IsNumber(x) || count < 0 || count > x.sym_size(*dim)) return false;
  Dims sizes = ToDims(x.sym_sizes());
  sizes[static_cast<std::size_t>(*dim)] = count;
  outputs.assign(2, Contiguous(std::move(sizes), x.scalar_type()));
  outputs[1].dtype = c10::ScalarType::Long;
  return true;
}

bool OfAll(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsNumber(x) || x.sym_numel() == 0) return false;
  outputs.assign(1, Contiguous({}, x.scalar_type()));
  return true;
}

// (self, dim)
bool RunningExtremum(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsNumber(x) || x.dim() == 0 || !WrapDim(args[1].toInt(), x.dim())) return false;
  outputs.assign(2, ContiguousLike(x));
  outputs[1].dtype = c10::ScalarType::Long;
  return true;
}

bool RunningLogSum(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsFloat(x) || x.dim() == 0 || !WrapDim(args[1].toInt(), x.dim())) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// Places in what is in order, of one dimension.
bool Places(const at::Tensor& x, const at::Tensor& ordered, bool narrow, Outputs& outputs) {
  if (ordered.dim() != 1 || x.scalar_type() != ordered.scalar_type() || !IsNumber(x)) return false;
  if (!IsContiguous(x) || !IsContiguous(ordered) || x.device() != ordered.device()) return false;
  outputs.assign(1, ContiguousLike(x));
  outputs[0].dtype = narrow ? c10::ScalarType::Int : c10::ScalarType::Long;
  return true;
}

// (self, boundaries, *, out_int32, right)
bool Bucketize(Arguments args, Outputs& outputs) {
  return Places(args[0].toTensor(), args[1].toTensor(), args[2].toBool(), outputs);
}

// (sorted_sequence, self, *, out_int32, right, side, sorter)
bool SearchSorted(Arguments args, Outputs& outputs) {
  if (!args[4].isNone() || OptionalTensor(args[5]) != nullptr) return false;
  return Places(args[1].toTensor(), args[0].toTensor(), args[2].toBool(), outputs);
}

bool FitsInto(const at::Tensor& index, const at::Tensor& x, std::int64_t but) {
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != but && index.sym_size(d) > x.sym_size(d)) return false;
  }
  return true;
}

// Of a tensor with its own rank, and with elements: an empty one fits everywhere.
bool IsIndex(const at::Tensor& index, const at::Tensor& x, std::optional<std::int64_t> dim) {
  return dim && x.dim() > 0 && index.dim() == x.dim() && index.scalar_type() == c10::ScalarType::Long &&
         index.sym_numel() != 0 && FitsInto(index, x, *dim);
}

// (self, dim, index, sparse_grad)
bool Gather(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &index = args[2].toTensor();
  if (!IsIndex(index, x, WrapDim(args[1].toInt(), x.dim()))) return false;
  outputs.assign(1, Contiguous(ToDims(index.sym_sizes()), x.scalar_type()));
  return true;
}

// (self, dim, index, src or value, …)
bool Scatter(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &index = args[2].toTensor();
  if (!IsIndex(index, x, WrapDim(args[1].toInt(), x.dim()))) return false;
  if (args[3].isTensor()) {
    const at::Tensor& src = args[3].toTensor();
    if (src.dim() != x.dim() || src.scalar_type() != x.scalar_type() || !FitsInto(index, src, -1)) return false;
  } else if (!IsFloat(x) && (!IsNumber(x) || !args[3].isInt())) {
    return false;
  }
  outputs.assign(1, ContiguousLike(x));
  return true;
}

bool AreRows(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() < 2 || a.dim() != b.dim() || a.scalar_type() != b.scalar_type() || !IsFloat(a)) return false;
  if (!IsContiguous(a) || !IsContiguous(b) || a.device() != b.device()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (d != a.dim() - 2 && a.sym_size(d) != b.sym_size(d)) return false;
  }
  return a.sym_numel() != 0 && b.sym_numel() != 0;
}

// (x1, x2, p, compute_mode)
bool Distances(Arguments args, Outputs& outputs) {
  const at::Tensor &a = args[0].toTensor(), &b = args[1].toTensor();
  if (!AreRows(a, b) || !args[2].isDouble() || !(args[2].toDouble() >= 0)) return false;
  Dims sizes = ToDims(a.sym_sizes());
  sizes.back() = b.sym_size(-2);
  outputs.assign(1, Contiguous(std::move(sizes), a.scalar_type()));
  return true;
}

// (grad, x1, x2, p, cdist)
bool DistancesBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& a = args[1].toTensor();
  if (!AreRows(a, args[2].toTensor())) return false;
  outputs.assign(1, ContiguousLike(a));
  return true;
}

// (self, p): of each two rows.
bool DistancesOfPairs(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (x.dim() != 2 || !IsFloat(x) || !IsContiguous(x) || !(args[1].toDouble() >= 0)) return false;
  const c10::SymInt rows = x.sym_size(0);
  outputs.assign(1, Contiguous({rows * (rows - 1) / 2}, x.scalar_type()));
  return true;
}

// (grad, self, p, pdist)
bool DistancesOfPairsBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[1].toTensor();
  if (x.dim() != 2 || !IsFloat(x) || !IsContiguous(x)) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, bins, min, max)
bool Histogram(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsFloat(x) || !args[1].isInt() || args[1].toInt() < 1) return false;
  for (const c10::IValue& end : args.slice(2, 2)) {
    if (!end.isScalar() || end.toScalar().isSymbolic() || end.toScalar().toDouble() != 0) return false;
  }
  outputs.assign(1, Contiguous({args[1].toInt()}, x.scalar_type()));
  return true;
}

// (self, num_samples, replacement, *, generator)
bool Draws(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  constexpr std::int64_t kMostKinds = 1 << 24;
  if ((x.dim() != 1 && x.dim() != 2) || !IsFloat(x)) return false;
  const c10::SymInt draws = args[1].toSymInt(), kinds = x.sym_size(-1);
  if (draws < 1 || kinds > kMostKinds || (!args[2].toBool() && draws > kinds) || x.sym_numel() == 0) return false;
  Dims sizes = ToDims(x.sym_sizes());
  sizes.back() = draws;
  outputs.assign(1, Contiguous(std::move(sizes), c10::ScalarType::Long));
  return true;
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)
template <bool forward_only>
bool Bags(Arguments args, Outputs& outputs) {
  constexpr std::int64_t kSum = 0, kMaximum = 2;
  const at::Tensor &rows = args[0].toTensor(), &places = args[1].toTensor(), &offsets = args[2].toTensor();
  if (rows.dim() != 2 || places.dim() != 1 || offsets.dim() != 1 || !rows.device().is_cpu()) return false;
  const c10::ScalarType type = rows.scalar_type(), of_places = places.scalar_type();
  if ((type != c10::ScalarType::Float && type != c10::ScalarType::Double) || !IsContiguous(rows)) return false;
  if (of_places != c10::ScalarType::Long || offsets.scalar_type() != of_places) return false;
  const std::int64_t mode = args[4].toInt();
  const at::Tensor* weights = OptionalTensor(args[6]);
  if (weights != nullptr && (mode != kSum || weights->scalar_type() != type)) return false;
  if (weights != nullptr && weights->sym_sizes() != places.sym_sizes()) return false;
  const bool ends = args[7].toBool();
  if (ends && offsets.sym_size(0) < 1) return false;
  const c10::SymInt all = offsets.sym_size(0), bags = ends ? all - 1 : all;
  const bool at_once = mode == kSum && type == c10::ScalarType::Float && args[8].toInt() < 0;
  const c10::SymInt counted = forward_only && mode == kSum ? all : bags;
  outputs.push_back(Contiguous({bags, rows.sym_size(1)}, type));
  outputs.push_back(Contiguous({at_once ? c10::SymInt(0) : places.sym_size(0)}, of_places));
  outputs.push_back(Contiguous({counted}, of_places));
  outputs.push_back(Contiguous(mode == kMaximum ? Dims{bags, rows.sym_size(1)} : Dims{counted}, of_places));
  return true;
}

// (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse, …)
bool BagsBackward(Arguments args, Outputs& outputs) {
  const at::Tensor& grad = args[0].toTensor();
  const c10::SymInt rows = args[6].toSymInt();
  if (grad.dim() != 2 || args[1].toTensor().dim() != 1 || !grad.device().is_cpu() || args[9].toBool()) return false;
  const c10::ScalarType type = grad.scalar_type();
  if ((type != c10::ScalarType::Float && type != c10::ScalarType::Double) || rows < 1) return false;
  outputs.assign(1, Contiguous({rows, grad.sym_size(1)}, type));
  return true;
}

// A row of scores for each target.
bool AreScores(const at::Tensor& x) {
  return x.dim() == 2 && IsFloat(x) && IsContiguous(x) && x.device().is_cpu() && x.sym_numel() != 0;
}

OutputMeta OfLosses(const at::Tensor& x, std::int64_t reduction) {
  return Contiguous(reduction == 0 ? Dims{x.sym_size(0)} : Dims{}, x.scalar_type());
}

// (self, target, p, margin, weight, reduction)
bool MultiMargin(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &target = args[1].toTensor();
  if (!AreScores(x) || target.dim() != 1 || target.scalar_type() != c10::ScalarType::Long) return false;
  if (target.sym_size(0) != x.sym_size(0) || OptionalTensor(args[4]) != nullptr) return false;
  outputs.assign(1, OfLosses(x, args[5].toInt()));
  return true;
}

// (grad_output, self, target, …)
bool GradientOfScores(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[1].toTensor();
  if (!AreScores(x)) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, target, reduction)
bool MultiLabelMargin(Arguments args, Outputs& outputs) {
  const at::Tensor &x = args[0].toTensor(), &target = args[1].toTensor();
  if (!AreScores(x) || target.scalar_type() != c10::ScalarType::Long || !IsContiguous(target)) return false;
  if (target.sym_sizes() != x.sym_sizes()) return false;
  outputs.push_back(OfLosses(x, args[2].toInt()));
  outputs.push_back(ContiguousLike(x));
  return true;
}

// (self, offset, dim1, dim2): written into zeros.
bool DiagonalEmbedding(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const std::int64_t offset = args[1].toInt(), rank = x.dim() + 1;
  const auto down = WrapDim(args[2].toInt(), rank), across = WrapDim(args[3].toInt(), rank);
  if (x.dim() == 0 || !down || !across || *down == *across) return false;
  Dims sizes = ToDims(x.sym_sizes());
  const c10::SymInt length = sizes.back() + (offset < 0 ? -offset : offset);
  sizes.pop_back();
  sizes.insert(sizes.begin() + std::min(*down, *across), length);
  sizes.insert(sizes.begin() + std::max(*down, *across), length);
  outputs.assign(1, Contiguous(std::move(sizes), x.scalar_type()));
  return true;
}

// Over the last dimensions of what is laid out row by row, as the CPU's kernels leave it.
bool TransformsRows(const at::Tensor& x, const Dims& dims) {
  if (!x.device().is_cpu() || dims.empty() || x.dim() < static_cast<std::int64_t>(dims.size())) return false;
  // By its strides, those of sizes of one too, the kernel orders the dimensions.
  if (x.sym_numel() == 0 || x.sym_strides() != c10::SymIntArrayRef(ContiguousStrides(x.sym_sizes()))) return false;
  std::int64_t next = x.dim() - static_cast<std::int64_t>(dims.size());
  for (const c10::SymInt& d : dims) {
    if (d.is_symbolic() || WrapDim(d.expect_int(), x.dim()) != next++) return false;
  }
  return true;
}

// (self, dim, normalization, onesided)
bool RealToComplex(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!IsFloat(x) || !TransformsRows(x, SymInts(args[1]))) return false;
  Dims sizes = ToDims(x.sym_sizes());
  if (args[3].toBool()) sizes.back() = sizes.back() / 2 + 1;
  outputs.assign(1, Contiguous(std::move(sizes), c10::toComplexType(x.scalar_type())));
  return true;
}

// (self, dim, normalization, forward)
bool ComplexToComplex(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  if (!x.is_complex() || !TransformsRows(x, SymInts(args[1]))) return false;
  outputs.assign(1, ContiguousLike(x));
  return true;
}

// (self, dim, normalization, last_dim_size)
bool ComplexToReal(Arguments args, Outputs& outputs) {
  const at::Tensor& x = args[0].toTensor();
  const c10::SymInt last = args[3].toSymInt();
  if (!x.is_complex() || last < 1 || !TransformsRows(x, SymInts(args[1]))) return false;
  if (last / 2 + 1 != x.sym_size(-1)) return false;
  Dims sizes = ToDims(x.sym_sizes());
  sizes.back() = last;
  outputs.assign(1, Contiguous(std::move(sizes), c10::toRealValueType(x.scalar_type())));
  return true;
}

using enum ir::OpName;

constexpr ShapeRow kRows[] = {
    {kMedian, OfAll},
    {kNanmedian, OfAll},
    {kMedianDim, SelectOne},
    {kNanmedianDim, SelectOne},
    {kMode, SelectOne},
    {kKthvalue, KthValue},
    {kTopk, TopK},
    {kCummax, RunningExtremum},
    {kCummin, RunningExtremum},
    {k_Logcumsumexp, RunningLogSum},
    {kBucketizeTensor, Bucketize},
    {kSearchsortedTensor, SearchSorted},
    {kGather, Gather},
    {kScatterSrc, Scatter},
    {kScatterValue, Scatter},
    {kScatterReduce, Scatter},
    {kScatterValueReduce, Scatter},
    {kScatterAdd, Scatter},
    {kScatterReduceTwo, Scatter},
    {kDiagEmbed, DiagonalEmbedding},
    {k_CdistForward, Distances},
    {k_CdistBackward, DistancesBackward},
    {k_PdistForward, DistancesOfPairs},
    {k_PdistBackward, DistancesOfPairsBackward},
    {kHistc, Histogram},
    {kMultinomial, Draws},
    {k_EmbeddingBag, Bags<false>},
    {k_EmbeddingBagForwardOnly, Bags<true>},
    {k_EmbeddingBagBackward, BagsBackward},
    {kMultiMarginLoss, MultiMargin},
    {kMultiMarginLossBackward, GradientOfScores},
    {kMultilabelMarginLossForward, MultiLabelMargin},
    {kMultilabelMarginLossBackward, GradientOfScores},
    {k_FftR2c, RealToComplex},
    {k_FftC2c, ComplexToComplex},
    {k_FftC2r, ComplexToReal},
};

}  // namespace

c10::ArrayRef<ShapeRow> SelectionShapes() { return kRows; }

}  // namespace framefuse::tracing
