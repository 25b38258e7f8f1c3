// Layer and group norm as pointwise operators and sums. See decompose_rules.h.
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/pointwise.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

bool IsGiven(const Arg& arg) {
  return arg.kind != Arg::Kind::kNone && !(arg.kind == Arg::Kind::kConstant && arg.constant.isNone());
}

c10::ScalarType Wide(c10::ScalarType type) {
  return type == c10::ScalarType::Half || type == c10::ScalarType::BFloat16 ? c10::ScalarType::Float : type;
}

bool IsRealFloat(const ir::Value& v) {
  return c10::isFloatingType(v.dtype) && StorageOf(v.dtype).has_value() && v.layout == c10::Layout::Strided;
}

Dims LastDims(const ir::Value& v, std::size_t count) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(v.sizes.size() - count));
  return dims;
}

Moments MomentsOf(NodeWriter& w, ValueId x, const Dims& dims, std::optional<Dim> divisor) {
  const Dim n = w.Product(dims, x);
  // Of one element the mean is that element, in the kernel that centres it: another kernel may have rounded less on the
  // way to it, and the norm makes of a difference in the last place hundreds of times as much.
  const auto sum = [&](ValueId of) { return n == Dim(1) ? of : w.Reduce(OpName::kSumDimIntList, of, dims, true); };
  Moments m;
  m.mean = w.WithDim(OpName::kDivScalar, sum(x), n);
  m.centred = w.Binary(OpName::kSubTensor, x, m.mean);
  m.variance =
      w.WithDim(OpName::kDivScalar, sum(w.Binary(OpName::kMulTensor, m.centred, m.centred)), divisor.value_or(n));
  return m;
}

std::optional<Dims> Constants(const std::vector<Dim>& dims) {
  Dims constants;
  for (const Dim& d : dims) {
    if (!d.is_constant()) return std::nullopt;
    constants.push_back(d.constant());
  }
  return constants;
}

ValueId InOrder(Graph& g, NodeWriter& w, ValueId x) {
  const ir::Value v = g.value(x);
  if (ir::IsContiguous(g.exprs, v)) return x;
  constexpr auto kInOrder = static_cast<std::int64_t>(c10::MemoryFormat::Contiguous);
  return w.Call(OpName::kClone, {Arg::OfValue(x), Arg::Constant(kInOrder)}, w.Like(v.sizes, v.dtype, v.device));
}

namespace {

Dims LeadingDims(const ir::Value& v, std::size_t trailing) {
  Dims dims(v.sizes.size() - trailing);
  std::iota(dims.begin(), dims.end(), std::int64_t{0});
  return dims;
}

// Size of an int[] argument, symbolic or not.
std::size_t ListSize(const Arg& arg) {
  return arg.kind == Arg::Kind::kDimList ? arg.dims.size() : arg.constant.toIntVector().size();
}

bool LayerNorm(Graph& g, const Node& n, NodeWriter w) {
  const ir::Value in = g.value(n.args[0].value);
  const std::size_t trailing = ListSize(n.args[1]);
  if (!IsRealFloat(in) || w.Product(LastDims(in, trailing), n.args[0].value) == Dim(0)) return false;
  const ValueId x = InOrder(g, w, n.args[0].value);
  const c10::ScalarType type = Wide(in.dtype);
  const Moments m = MomentsOf(w, w.To(x, type), LastDims(in, trailing));
  const ValueId rstd =
      w.Unary(OpName::kRsqrt, w.WithNumber(OpName::kAddScalar, m.variance, n.args[4].constant.toDouble()));
  ValueId y = w.Binary(OpName::kMulTensor, m.centred, rstd);
  // Weights of halves are widened by promotion: a copy of their own would be a kernel of its own.
  if (IsGiven(n.args[2])) y = w.Binary(OpName::kMulTensor, y, n.args[2].value);
  if (IsGiven(n.args[3])) y = w.Binary(OpName::kAddTensor, y, n.args[3].value);
  w.Into(n.outputs[0]).To(y, in.dtype);
  if (n.outputs[1] != kNoValue) w.Into(n.outputs[1]).To(m.mean, g.value(n.outputs[1]).dtype);
  if (n.outputs[2] != kNoValue) w.Into(n.outputs[2]).To(rstd, g.value(n.outputs[2]).dtype);
  return true;
}

// grad, input, normalized_shape, mean, rstd, weight, bias, output_mask
bool LayerNormBackward(Graph& g, const Node& n, NodeWriter w) {
  const ir::Value in = g.value(n.args[1].value);
  const std::size_t trailing = ListSize(n.args[2]);
  const Dims dims = LastDims(in, trailing), leading = LeadingDims(in, trailing);
  if (!IsRealFloat(in) || leading.empty()) return false;
  if (w.Product(dims, n.args[1].value) == Dim(0) || w.Product(leading, n.args[1].value) == Dim(0)) return false;
  const ValueId x = InOrder(g, w, n.args[1].value);
  const c10::ScalarType type = Wide(in.dtype);
  const ValueId grad = w.To(InOrder(g, w, n.args[0].value), type), rstd = w.To(n.args[4].value, type);
  const ValueId centred = w.Binary(OpName::kSubTensor, w.To(x, type), w.To(n.args[3].value, type));
  const ValueId normal = w.Binary(OpName::kMulTensor, centred, rstd);
  if (n.outputs[0] != kNoValue) {
    const ValueId gw = IsGiven(n.args[5]) ? w.Binary(OpName::kMulTensor, grad, n.args[5].value) : grad;
    const Dim count = w.Product(dims, x);
    const ValueId along =
        w.WithDim(OpName::kDivScalar,
                  w.Reduce(OpName::kSumDimIntList, w.Binary(OpName::kMulTensor, gw, normal), dims, true), count);
    const ValueId mean = w.WithDim(OpName::kDivScalar, w.Reduce(OpName::kSumDimIntList, gw, dims, true), count);
    const ValueId inner = w.Binary(OpName::kSubTensor, w.Binary(OpName::kSubTensor, gw, mean),
                                   w.Binary(OpName::kMulTensor, normal, along));
    const ValueId dx = w.Binary(OpName::kMulTensor, inner, rstd);
    w.Into(n.outputs[0]).To(dx, g.value(n.outputs[0]).dtype);
  }
  const auto column = [&](ValueId out, ValueId of) {
    if (out == kNoValue) return;
    const ValueId sum = w.Reduce(OpName::kSumDimIntList, of, leading, false);
    w.Into(out).To(sum, g.value(out).dtype);
  };
  column(n.outputs[1], n.outputs[1] == kNoValue ? kNoValue : w.Binary(OpName::kMulTensor, grad, normal));
  column(n.outputs[2], grad);
  return true;
}

// input, weight, bias, N, C, HxW, groups, eps: moments over [channels of a group, HxW] of [N, groups, ..., HxW].
bool GroupNorm(Graph& g, const Node& n, NodeWriter w) {
  const ir::Value in = g.value(n.args[0].value);
  const std::optional<Dims> sizes = Constants(in.sizes);
  if (!IsRealFloat(in) || !ir::IsContiguous(g.exprs, in) || !sizes || sizes->size() < 2) return false;
  for (std::size_t a : {6u, 7u}) {
    if (n.args[a].kind != Arg::Kind::kConstant) return false;
  }
  const std::int64_t groups = n.args[6].constant.toInt(), channels = (*sizes)[1] / groups;
  std::int64_t points = 1;
  for (std::size_t d = 2; d < sizes->size(); ++d) points *= (*sizes)[d];
  const c10::ScalarType type = Wide(in.dtype);
  if ((*sizes)[0] * channels * points == 0) return false;
  for (std::size_t a : {1u, 2u}) {
    if (IsGiven(n.args[a]) && !ir::IsContiguous(g.exprs, g.value(n.args[a].value))) return false;
  }
  const ValueId x = w.View(n.args[0].value, {(*sizes)[0], groups, channels, points});
  const Moments m = MomentsOf(w, w.To(x, type), {2, 3});
  const ValueId rstd =
      w.Unary(OpName::kRsqrt, w.WithNumber(OpName::kAddScalar, m.variance, n.args[7].constant.toDouble()));
  ValueId y = w.Binary(OpName::kMulTensor, m.centred, rstd);
  const Dims affine = {1, groups, channels, 1};
  if (IsGiven(n.args[1])) y = w.Binary(OpName::kMulTensor, y, w.View(n.args[1].value, affine));
  if (IsGiven(n.args[2])) y = w.Binary(OpName::kAddTensor, y, w.View(n.args[2].value, affine));
  const ValueId rounded = w.To(y, in.dtype);
  w.Into(n.outputs[0]).View(rounded, *sizes);
  const auto moment = [&](ValueId out, ValueId of) {
    if (out == kNoValue) return;
    const ValueId typed = w.To(of, g.value(out).dtype);
    w.Into(out).View(typed, {(*sizes)[0], groups});
  };
  moment(n.outputs[1], m.mean);
  moment(n.outputs[2], rstd);
  return true;
}

// grad, input, mean, rstd, weight, N, C, HxW, groups, output_mask. As eager: dx = a grad + b x + c with a, b, c of sums
// over the points.
bool GroupNormBackward(Graph& g, const Node& n, NodeWriter w) {
  const ir::Value in = g.value(n.args[1].value), grad_in = g.value(n.args[0].value);
  const std::optional<Dims> sizes = Constants(in.sizes);
  const bool dense = ir::IsContiguous(g.exprs, in) && ir::IsContiguous(g.exprs, grad_in);
  if (!IsRealFloat(in) || !IsRealFloat(grad_in) || !dense || !sizes || sizes->size() < 2) return false;
  if (n.args[8].kind != Arg::Kind::kConstant) return false;
  for (std::size_t a : {2u, 3u, 4u}) {
    if (IsGiven(n.args[a]) && !ir::IsContiguous(g.exprs, g.value(n.args[a].value))) return false;
  }
  const std::int64_t batch = (*sizes)[0], groups = n.args[8].constant.toInt(), channels = (*sizes)[1] / groups;
  std::int64_t points = 1;
  for (std::size_t d = 2; d < sizes->size(); ++d) points *= (*sizes)[d];
  if (batch * channels * points == 0) return false;
  const c10::ScalarType type = Wide(in.dtype);
  const Dims space = {batch, groups, channels, points}, moments = {batch, groups, 1, 1};
  const ValueId x = w.To(w.View(n.args[1].value, space), type), grad = w.To(w.View(n.args[0].value, space), type);
  const ValueId mean = w.To(w.View(n.args[2].value, moments), type);
  const ValueId rstd = w.To(w.View(n.args[3].value, moments), type);
  const ValueId db = w.Reduce(OpName::kSumDimIntList, grad, {3}, true);  // [N, groups, channels, 1]
  const ValueId ds = w.Reduce(OpName::kSumDimIntList, w.Binary(OpName::kMulTensor, grad, x), {3}, true);
  const bool affine = IsGiven(n.args[4]);
  const ValueId weight = affine ? w.To(w.View(n.args[4].value, {1, groups, channels, 1}), type) : kNoValue;
  if (n.outputs[0] != kNoValue) {
    const auto over_group = [&](ValueId of) {
      return w.Reduce(OpName::kSumDimIntList, affine ? w.Binary(OpName::kMulTensor, of, weight) : of, {2}, true);
    };
    const ValueId b = over_group(db), s = over_group(ds);  // [N, groups, 1, 1]
    const double per = 1.0 / static_cast<double>(channels * points);
    const ValueId cube = w.Binary(OpName::kMulTensor, w.Binary(OpName::kMulTensor, rstd, rstd), rstd);
    const ValueId difference = w.Binary(OpName::kSubTensor, w.Binary(OpName::kMulTensor, b, mean), s);
    const ValueId along = w.WithNumber(OpName::kMulScalar, w.Binary(OpName::kMulTensor, difference, cube), per);
    const ValueId level = w.WithNumber(OpName::kMulScalar, w.Binary(OpName::kMulTensor, b, rstd), per);
    const ValueId offset = w.Binary(OpName::kAddTensor, w.Binary(OpName::kMulTensor, along, mean), level);
    const ValueId scaled =
        w.Binary(OpName::kMulTensor, grad, affine ? w.Binary(OpName::kMulTensor, weight, rstd) : rstd);
    const ValueId dx = w.Binary(OpName::kSubTensor,
                                w.Binary(OpName::kAddTensor, scaled, w.Binary(OpName::kMulTensor, x, along)), offset);
    InShape(g, w, n.outputs[0], dx);
  }
  const auto over_batch = [&](ValueId out, ValueId of) {
    if (out != kNoValue) InShape(g, w, out, batch == 1 ? of : w.Reduce(OpName::kSumDimIntList, of, {0}, true));
  };
  const ValueId centred = w.Binary(OpName::kSubTensor, ds, w.Binary(OpName::kMulTensor, db, mean));
  over_batch(n.outputs[1], w.Binary(OpName::kMulTensor, centred, rstd));
  over_batch(n.outputs[2], db);
  return true;
}

}  // namespace

absl::Span<const DecompositionRow> NormRows() {
  static constexpr DecompositionRow kRows[] = {
      {OpName::kNativeLayerNorm, LayerNorm},
      {OpName::kNativeLayerNormBackward, LayerNormBackward},
      {OpName::kNativeGroupNorm, GroupNorm},
      {OpName::kNativeGroupNormBackward, GroupNormBackward},
  };
  return kRows;
}

}  // namespace framefuse::fusion
