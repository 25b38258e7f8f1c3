// Layer, group and batch norm as pointwise operators and sums. See decompose_rules.h.
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "backends/fusion/channels_last.h"
#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/pointwise.h"
#include "common/coverage.h"

namespace framefuse::fusion {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

const bool declared = DeclareKinds(
    "decomposition", {"aten.native_layer_norm", "aten.native_layer_norm_backward", "aten.native_group_norm",
                      "aten.native_group_norm_backward", "aten.native_batch_norm", "aten.cudnn_batch_norm",
                      "aten._native_batch_norm_legit_no_training", "aten._native_batch_norm_legit_functional",
                      "aten._native_batch_norm_legit.no_stats", "aten.native_batch_norm_backward"});

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
  const auto sum = [&](ValueId of) { return n == Dim(1) ? of : w.Reduce("sum", of, dims, true); };
  Moments m;
  m.mean = w.WithDim("div", sum(x), n);
  m.centred = w.Binary("sub", x, m.mean);
  m.variance = w.WithDim("div", sum(w.Binary("mul", m.centred, m.centred)), divisor.value_or(n));
  return m;
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
  const ValueId x = n.args[0].value;
  const ir::Value in = g.value(x);
  const std::size_t trailing = ListSize(n.args[1]);
  if (!IsRealFloat(in) || !ir::IsContiguous(g.exprs, in) || w.Product(LastDims(in, trailing), x) == Dim(0))
    return false;
  const c10::ScalarType type = Wide(in.dtype);
  const Moments m = MomentsOf(w, w.To(x, type), LastDims(in, trailing));
  const ValueId rstd = w.Unary("rsqrt", w.WithNumber("add", m.variance, n.args[4].constant.toDouble()));
  ValueId y = w.Binary("mul", m.centred, rstd);
  // Weights of halves are widened by promotion: a copy of their own would be a kernel of its own.
  if (IsGiven(n.args[2])) y = w.Binary("mul", y, n.args[2].value);
  if (IsGiven(n.args[3])) y = w.Binary("add", y, n.args[3].value);
  w.Into(n.outputs[0]).To(y, in.dtype);
  if (n.outputs[1] != kNoValue) w.Into(n.outputs[1]).To(m.mean, g.value(n.outputs[1]).dtype);
  if (n.outputs[2] != kNoValue) w.Into(n.outputs[2]).To(rstd, g.value(n.outputs[2]).dtype);
  return true;
}

// grad, input, normalized_shape, mean, rstd, weight, bias, output_mask
bool LayerNormBackward(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[1].value;
  const ir::Value in = g.value(x);
  const std::size_t trailing = ListSize(n.args[2]);
  const Dims dims = LastDims(in, trailing), leading = LeadingDims(in, trailing);
  if (!IsRealFloat(in) || !ir::IsContiguous(g.exprs, in) || leading.empty()) return false;
  if (w.Product(dims, x) == Dim(0) || w.Product(leading, x) == Dim(0)) return false;
  const c10::ScalarType type = Wide(in.dtype);
  const ValueId grad = w.To(n.args[0].value, type), rstd = w.To(n.args[4].value, type);
  const ValueId centred = w.Binary("sub", w.To(x, type), w.To(n.args[3].value, type));
  const ValueId normal = w.Binary("mul", centred, rstd);
  if (n.outputs[0] != kNoValue) {
    const ValueId gw = IsGiven(n.args[5]) ? w.Binary("mul", grad, n.args[5].value) : grad;
    const Dim count = w.Product(dims, x);
    const ValueId along = w.WithDim("div", w.Reduce("sum", w.Binary("mul", gw, normal), dims, true), count);
    const ValueId mean = w.WithDim("div", w.Reduce("sum", gw, dims, true), count);
    const ValueId inner = w.Binary("sub", w.Binary("sub", gw, mean), w.Binary("mul", normal, along));
    const ValueId dx = w.Binary("mul", inner, rstd);
    w.Into(n.outputs[0]).To(dx, g.value(n.outputs[0]).dtype);
  }
  const auto column = [&](ValueId out, ValueId of) {
    if (out == kNoValue) return;
    const ValueId sum = w.Reduce("sum", of, leading, false);
    w.Into(out).To(sum, g.value(out).dtype);
  };
  column(n.outputs[1], n.outputs[1] == kNoValue ? kNoValue : w.Binary("mul", grad, normal));
  column(n.outputs[2], grad);
  return true;
}

std::optional<Dims> ConstantSizes(const ir::Value& v) {
  Dims sizes;
  for (const Dim& d : v.sizes) {
    if (!d.is_constant()) return std::nullopt;
    sizes.push_back(d.constant());
  }
  return sizes;
}

// input, weight, bias, N, C, HxW, groups, eps: moments over [channels of a group, HxW] of [N, groups, ..., HxW].
bool GroupNorm(Graph& g, const Node& n, NodeWriter w) {
  const ir::Value in = g.value(n.args[0].value);
  const std::optional<Dims> sizes = ConstantSizes(in);
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
  const ValueId rstd = w.Unary("rsqrt", w.WithNumber("add", m.variance, n.args[7].constant.toDouble()));
  ValueId y = w.Binary("mul", m.centred, rstd);
  const Dims affine = {1, groups, channels, 1};
  if (IsGiven(n.args[1])) y = w.Binary("mul", y, w.View(n.args[1].value, affine));
  if (IsGiven(n.args[2])) y = w.Binary("add", y, w.View(n.args[2].value, affine));
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

// `out` is `of` in its own type and shape.
void IntoOwnShape(Graph& g, NodeWriter& w, ValueId out, ValueId of) {
  const ValueId typed = w.To(of, g.value(out).dtype);
  w.Into(out).ViewAs(typed, g.value(out).sizes);
}

// grad, input, mean, rstd, weight, N, C, HxW, groups, output_mask. As eager: dx = a grad + b x + c with a, b, c of sums
// over the points.
bool GroupNormBackward(Graph& g, const Node& n, NodeWriter w) {
  const ir::Value in = g.value(n.args[1].value), grad_in = g.value(n.args[0].value);
  const std::optional<Dims> sizes = ConstantSizes(in);
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
  const ValueId db = w.Reduce("sum", grad, {3}, true);  // [N, groups, channels, 1]
  const ValueId ds = w.Reduce("sum", w.Binary("mul", grad, x), {3}, true);
  const bool affine = IsGiven(n.args[4]);
  const ValueId weight = affine ? w.To(w.View(n.args[4].value, {1, groups, channels, 1}), type) : kNoValue;
  if (n.outputs[0] != kNoValue) {
    const auto over_group = [&](ValueId of) {
      return w.Reduce("sum", affine ? w.Binary("mul", of, weight) : of, {2}, true);
    };
    const ValueId b = over_group(db), s = over_group(ds);  // [N, groups, 1, 1]
    const double per = 1.0 / static_cast<double>(channels * points);
    const ValueId cube = w.Binary("mul", w.Binary("mul", rstd, rstd), rstd);
    const ValueId difference = w.Binary("sub", w.Binary("mul", b, mean), s);
    const ValueId along = w.WithNumber("mul", w.Binary("mul", difference, cube), per);
    const ValueId level = w.WithNumber("mul", w.Binary("mul", b, rstd), per);
    const ValueId offset = w.Binary("add", w.Binary("mul", along, mean), level);
    const ValueId scaled = w.Binary("mul", grad, affine ? w.Binary("mul", weight, rstd) : rstd);
    const ValueId dx = w.Binary("sub", w.Binary("add", scaled, w.Binary("mul", x, along)), offset);
    IntoOwnShape(g, w, n.outputs[0], dx);
  }
  const auto over_batch = [&](ValueId out, ValueId of) {
    if (out != kNoValue) IntoOwnShape(g, w, out, batch == 1 ? of : w.Reduce("sum", of, {0}, true));
  };
  const ValueId centred = w.Binary("sub", ds, w.Binary("mul", db, mean));
  over_batch(n.outputs[1], w.Binary("mul", centred, rstd));
  over_batch(n.outputs[2], db);
  return true;
}

// --- batch norm: [N, C, ...], statistics of each channel

// A parameter or statistic of [C], in shape [1, C, 1, ..].
ValueId OfChannels(Graph& g, NodeWriter& w, ValueId v, const ir::Value& x, c10::ScalarType type) {
  std::vector<Dim> sizes(x.sizes.size(), Dim(1));
  sizes[1] = g.value(v).sizes[0];
  return w.To(w.ViewAs(v, std::move(sizes)), type);
}

// Points of one channel of one sample; they lie side by side.
Dims PointDims(const ir::Value& x) { return LastDims(x, x.sizes.size() - 2); }

ValueId SumOver(NodeWriter& w, ValueId v, const Dims& dims) {
  bool one = true;
  for (std::int64_t d : dims) one = one && w.value(v).sizes[static_cast<std::size_t>(d)] == Dim(1);
  return one ? v : w.Reduce("sum", v, dims, true);
}

bool HasChannels(const ir::Value& x) {
  if (!IsRealFloat(x) || x.sizes.size() < 2 || !x.sizes[1].is_constant()) return false;
  return std::none_of(x.sizes.begin(), x.sizes.end(), [](const Dim& d) { return d == Dim(0); });
}

// Each channel's points lie side by side.
bool HasBatchNormForm(Graph& g, ValueId v) { return HasChannels(g.value(v)) && ir::IsContiguous(g.exprs, g.value(v)); }

// Of each sample's points first, while they are in cache; samples are joined by their means' distances.
Moments ChannelMoments(Graph& g, NodeWriter& w, ValueId x) {
  const Dims points = PointDims(g.value(x));
  const Dim each = w.Product(points, x);
  if (points.empty() || each == Dim(1)) {
    Moments m = MomentsOf(w, x, {0}, Dim(1));
    m.mean = w.value(x).sizes[0] == Dim(1) ? x : m.mean;
    return m;
  }
  const ValueId own_mean = w.WithDim("div", SumOver(w, x, points), each);
  const ValueId centred = w.Binary("sub", x, own_mean);
  const ValueId own_squares = SumOver(w, w.Binary("mul", centred, centred), points);
  if (w.value(x).sizes[0] == Dim(1)) return {own_mean, centred, own_squares};
  const Dim samples = w.value(x).sizes[0];
  Moments m;
  m.mean = w.WithDim("div", SumOver(w, own_mean, {0}), samples);
  m.centred = w.Binary("sub", x, m.mean);
  const ValueId distance = w.Binary("sub", own_mean, m.mean);
  const ValueId between = w.WithDim("mul", SumOver(w, w.Binary("mul", distance, distance), {0}), each);
  m.variance = w.Binary("add", SumOver(w, own_squares, {0}), between);
  return m;
}

// (x - mean) (invstd weight) + bias: a shift by mean invstd weight would cancel where the mean is large.
void Normalise(Graph& g, const Node& n, NodeWriter& w, ValueId x, ValueId mean, ValueId invstd) {
  const c10::ScalarType type = g.value(x).dtype;
  const ir::Value in = g.value(x);
  const ValueId scale =
      IsGiven(n.args[1]) ? w.Binary("mul", invstd, OfChannels(g, w, n.args[1].value, in, type)) : invstd;
  ValueId y = w.Binary("mul", w.Binary("sub", x, mean), scale);
  if (IsGiven(n.args[2])) y = w.Binary("add", y, OfChannels(g, w, n.args[2].value, in, type));
  w.Into(n.outputs[0]).To(y, g.value(n.outputs[0]).dtype);
}

void EmptyInto(const Graph& g, const Node& n, NodeWriter& w, ValueId out) {
  if (out == kNoValue) return;
  const ir::Value like = g.value(out);
  const Arg none = Arg::Constant(c10::List<std::int64_t>({0}));
  w.Into(out).Call("aten.new_empty", {n.args[0], none, Arg::Constant(static_cast<std::int64_t>(like.dtype))}, like);
}

// A value of [C] spread over x, so that what is computed of it is part of x's kernel, once a row.
ValueId SpreadOver(Graph& g, NodeWriter& w, ValueId v, const ir::Value& x, const Dims& sizes, c10::ScalarType type) {
  Dims strides(sizes.size(), 0);
  strides[1] = 1;
  ir::Value spread = g.value(v);
  spread.sizes = x.sizes;
  spread.strides.assign(strides.begin(), strides.end());
  const auto list = [](const Dims& dims) { return Arg::Constant(c10::List<std::int64_t>(dims)); };
  return w.To(w.Call("aten.as_strided", {Arg::OfValue(v), list(sizes), list(strides)}, spread), type);
}

// input, weight, bias, running_mean, running_var, [training,] momentum, eps. cudnn's form has a third result.
bool BatchNormInference(Graph& g, const Node& n, NodeWriter w, bool says_training) {
  const bool tracked = IsGiven(n.args[3]) && IsGiven(n.args[4]);
  if (says_training && n.args[5].constant.toBool()) return false;
  const ir::Value in = g.value(n.args[0].value);
  const bool rows = ir::IsContiguous(g.exprs, in);
  if (!tracked || !HasChannels(in) || !(rows || IsChannelsLast(g.exprs, in))) return false;
  const std::optional<Dims> sizes = ConstantSizes(in);
  const c10::ScalarType type = Wide(in.dtype);
  const ValueId x = w.To(n.args[0].value, type);
  const auto of_channels = [&](std::size_t a) {
    const ValueId v = n.args[a].value;
    const bool spreads = rows && sizes && in.sizes[1] != Dim(1) && ir::IsContiguous(g.exprs, g.value(v));
    return spreads ? SpreadOver(g, w, v, in, *sizes, type) : OfChannels(g, w, v, in, type);
  };
  const double eps = n.args[says_training ? 7 : 6].constant.toDouble();
  ValueId scale = w.Unary("rsqrt", w.WithNumber("add", of_channels(4), eps));
  if (IsGiven(n.args[1])) scale = w.Binary("mul", scale, of_channels(1));
  ValueId shift = w.Unary("neg", w.Binary("mul", of_channels(3), scale));
  if (IsGiven(n.args[2])) shift = w.Binary("add", shift, of_channels(2));
  const ValueId y = w.Binary("add", w.Binary("mul", x, scale), shift);
  w.Into(n.outputs[0]).To(y, g.value(n.outputs[0]).dtype);
  for (std::size_t o = 1; o < n.outputs.size(); ++o) EmptyInto(g, n, w, n.outputs[o]);
  return true;
}

// input, weight, bias, [running_mean, running_var,] training, momentum, eps. New running statistics come last.
bool BatchNormTraining(Graph& g, const Node& n, NodeWriter w, bool tracked) {
  const std::size_t after = tracked ? 5 : 3;
  if (!n.args[after].constant.toBool() || !HasBatchNormForm(g, n.args[0].value)) return false;
  const ir::Value in = g.value(n.args[0].value);
  const c10::ScalarType type = Wide(in.dtype);
  const ValueId x = w.To(n.args[0].value, type);
  Dims all = PointDims(in);
  all.push_back(0);
  const Dim count = w.Product(all, x);
  const Moments m = ChannelMoments(g, w, x);
  const ValueId variance = w.WithDim("div", m.variance, count);
  const ValueId invstd = w.Unary("rsqrt", w.WithNumber("add", variance, n.args[after + 2].constant.toDouble()));
  Normalise(g, n, w, x, m.mean, invstd);
  const auto into = [&](ValueId out, ValueId v) {
    if (out != kNoValue) IntoOwnShape(g, w, out, v);
  };
  into(n.outputs[1], m.mean);
  into(n.outputs[2], invstd);
  if (!tracked) return true;
  const double momentum = n.args[6].constant.toDouble();
  const auto moved = [&](std::size_t argument, ValueId now) {
    const ValueId old = w.WithNumber("mul", OfChannels(g, w, n.args[argument].value, in, type), 1 - momentum);
    into(n.outputs[argument], w.Binary("add", w.WithNumber("mul", now, momentum), old));
  };
  moved(3, m.mean);
  moved(4, w.WithDim("div", m.variance, g.exprs.Make(ir::ExprKind::kAdd, count, Dim(-1))));
  return true;
}

// What is left of a gradient over two points is what rounding leaves of their difference: eager's CPU kernel computes
// it from sums of doubles.
c10::ScalarType TypeOfGradient(const ir::Value& in, const Dim& count) {
  const c10::ScalarType type = Wide(in.dtype);
  constexpr std::int64_t kFew = 4;
  const bool few = count.is_constant() && count.constant() <= kFew;
  return few && in.device.is_cpu() && type == c10::ScalarType::Float ? c10::ScalarType::Double : type;
}

// grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
bool BatchNormBackward(Graph& g, const Node& n, NodeWriter w) {
  if (!HasBatchNormForm(g, n.args[1].value) || !HasBatchNormForm(g, n.args[0].value)) return false;
  const bool training = n.args[7].constant.toBool();
  const std::size_t first = training ? 5 : 3;
  if (!IsGiven(n.args[first]) || !IsGiven(n.args[first + 1])) return false;
  const ir::Value in = g.value(n.args[1].value);
  Dims all = PointDims(in);
  all.push_back(0);
  const c10::ScalarType type = TypeOfGradient(in, w.Product(all, n.args[1].value));
  const ValueId grad = w.To(n.args[0].value, type), x = w.To(n.args[1].value, type);
  const ValueId mean = OfChannels(g, w, n.args[first].value, in, type);
  ValueId invstd = OfChannels(g, w, n.args[first + 1].value, in, type);
  if (!training) invstd = w.Unary("rsqrt", w.WithNumber("add", invstd, n.args[8].constant.toDouble()));
  const Dims points = PointDims(in);
  const auto over_channel = [&](ValueId v) { return SumOver(w, points.empty() ? v : SumOver(w, v, points), {0}); };
  const ValueId centred = w.Binary("sub", x, mean);
  const ValueId sum = over_channel(grad), along = over_channel(w.Binary("mul", grad, centred));
  if (n.outputs[0] != kNoValue) {
    const ValueId scale =
        IsGiven(n.args[2]) ? w.Binary("mul", invstd, OfChannels(g, w, n.args[2].value, in, type)) : invstd;
    ValueId rest = grad;
    if (training) {
      const Dim count = w.Product(all, x);
      const ValueId slope = w.WithDim("div", w.Binary("mul", along, w.Binary("mul", invstd, invstd)), count);
      rest = w.Binary("sub", w.Binary("sub", grad, w.Binary("mul", centred, slope)), w.WithDim("div", sum, count));
    }
    const ValueId dx = w.Binary("mul", rest, scale);
    w.Into(n.outputs[0]).To(dx, g.value(n.outputs[0]).dtype);
  }
  const auto into = [&](ValueId out, ValueId v) {
    if (out != kNoValue) IntoOwnShape(g, w, out, v);
  };
  into(n.outputs[1], w.Binary("mul", along, invstd));
  into(n.outputs[2], sum);
  return true;
}

}  // namespace

bool DecomposeNorm(Graph& g, const Node& n, NodeWriter w) {
  const std::string& name = n.op->name();
  if (name == "aten.native_layer_norm") return LayerNorm(g, n, w);
  if (name == "aten.native_layer_norm_backward") return LayerNormBackward(g, n, w);
  if (name == "aten.native_group_norm") return GroupNorm(g, n, w);
  if (name == "aten.native_group_norm_backward") return GroupNormBackward(g, n, w);
  if (name == "aten.native_batch_norm" || name == "aten.cudnn_batch_norm") return BatchNormInference(g, n, w, true);
  if (name == "aten._native_batch_norm_legit_no_training") return BatchNormInference(g, n, w, false);
  if (name == "aten._native_batch_norm_legit_functional") return BatchNormTraining(g, n, w, true);
  if (name == "aten._native_batch_norm_legit.no_stats") return BatchNormTraining(g, n, w, false);
  if (name == "aten.native_batch_norm_backward") return BatchNormBackward(g, n, w);
  return false;
}

}  // namespace framefuse::fusion
