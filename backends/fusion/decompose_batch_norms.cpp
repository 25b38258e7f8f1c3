// Batch norm of [N, C, ...] as pointwise operators and sums: of inference, of training, and its gradient; of native and
// of cuDNN's operators. What cuDNN reserves for its own gradient is empty then: UseNativeBatchNormGradients leaves none
// that reads it. See decompose_rules.h.
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <string>
#include <utility>

#include "backends/fusion/channels_last.h"
#include "backends/fusion/decompose.h"
#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/pointwise.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// A parameter or statistic of [C], in shape [1, C, 1, ..].
ValueId OfChannels(Graph& g, NodeWriter& w, ValueId v, const ir::Value& x, c10::ScalarType type) {
  std::vector<Dim> sizes(x.sizes.size(), Dim(1));
  sizes[1] = g.value(v).sizes[0];
  return w.To(w.ViewAs(v, std::move(sizes)), type);
}

// Points of one channel of one sample; they lie side by side.
Dims PointDims(const ir::Value& x) { return LastDims(x, x.sizes.size() - 2); }

bool HasChannels(const ir::Value& x) {
  if (!IsRealFloat(x) || x.sizes.size() < 2 || !x.sizes[1].is_constant()) return false;
  return std::none_of(x.sizes.begin(), x.sizes.end(), [](const Dim& d) { return d == Dim(0); });
}

// Each channel's points lie side by side, or each point's channels.
bool IsBatchNormInput(Graph& g, ValueId v) {
  const ir::Value& x = g.value(v);
  return HasChannels(x) && (ir::IsContiguous(g.exprs, x) || IsChannelsLast(g.exprs, x));
}

ValueId SumOver(NodeWriter& w, ValueId v, const Dims& dims) {
  bool one = true;
  for (std::int64_t d : dims) one = one && w.value(v).sizes[static_cast<std::size_t>(d)] == Dim(1);
  return one ? v : w.Reduce(OpName::kSumDimIntList, v, dims, true);
}

enum class Place : std::uint8_t { kFirst, kMiddle, kLast };

// One element of these dimensions, spread over them: what is computed of it is part of v's kernel. Any of them will do.
ValueId ElementOf(Graph& g, NodeWriter& w, ValueId v, const Dims& dims, Place place) {
  using ir::ExprKind;
  ir::Value spread = g.value(v);
  for (const std::int64_t d : dims) {
    const auto i = static_cast<std::size_t>(d);
    const Dim size = spread.sizes[i];
    const Dim begin = place == Place::kFirst    ? Dim(0)
                      : place == Place::kMiddle ? g.exprs.Make(ExprKind::kFloorDiv, size, Dim(2))
                                                : g.exprs.Make(ExprKind::kAdd, size, Dim(-1));
    const Dim jump = g.exprs.Make(ExprKind::kMul, spread.strides[i], begin);
    spread.offset = g.exprs.Make(ExprKind::kAdd, spread.offset, jump);
    spread.strides[i] = Dim(0);
  }
  return w.Call(OpName::kAsStrided,
                {Arg::OfValue(v), Arg::OfDims(spread.sizes), Arg::OfDims(spread.strides), Arg::OfDim(spread.offset)},
                spread);
}

// For each element of x, the number between two others, of three elements along dims; 0 where it is infinite. It lies
// among the elements of these dimensions, even if a few of them are far off.
ValueId NumberAmong(Graph& g, NodeWriter& w, ValueId x, const Dims& dims, c10::ScalarType type) {
  const auto at = [&](Place place) { return w.To(ElementOf(g, w, x, dims, place), type); };
  const ValueId a = at(Place::kFirst), b = at(Place::kMiddle), c = at(Place::kLast);
  const ValueId lower = w.Binary(OpName::kMinimum, a, b), upper = w.Binary(OpName::kMaximum, a, b);
  const ValueId median = w.Binary(OpName::kMaximum, lower, w.Binary(OpName::kMinimum, upper, c));
  const ValueId nothing = w.Binary(OpName::kSubTensor, median, median);
  ir::Value truth = g.value(nothing);
  truth.dtype = c10::ScalarType::Bool;
  const ValueId is_infinite = w.Call(OpName::kNeScalar, {Arg::OfValue(nothing), Arg::Constant(0.0)}, truth);
  ir::Value like = g.value(nothing);
  like.strides = g.value(x).strides;
  return w.Call(OpName::kMaskedFillScalar, {Arg::OfValue(median), Arg::OfValue(is_infinite), Arg::Constant(0.0)}, like);
}

// Mean and sum of squares over dims in one reading, from the distances to a number among the elements: so little is
// lost where the square of the sum is taken off the sum of squares.
Moments MomentsInOneReading(Graph& g, NodeWriter& w, ValueId x, const Dims& dims, c10::ScalarType type) {
  const Dim count = w.Product(dims, x);
  const ValueId from = NumberAmong(g, w, x, dims, type);
  const ValueId distance = w.Binary(OpName::kSubTensor, w.To(x, type), from);
  const ValueId sum = SumOver(w, distance, dims),
                squares = SumOver(w, w.Binary(OpName::kMulTensor, distance, distance), dims);
  const ValueId mean = w.WithDim(OpName::kDivScalar, sum, count);
  Moments m;
  m.mean = w.Binary(OpName::kAddTensor, w.Reduce(OpName::kAmax, from, dims, true), mean);  // of equal numbers
  m.variance = w.Unary(OpName::kRelu, w.Binary(OpName::kSubTensor, squares, w.Binary(OpName::kMulTensor, sum, mean)));
  return m;
}

// Of a channel in channels_last: of each sample, then of all of them, joined by their means' distances.
Moments MomentsOfLastChannels(Graph& g, NodeWriter& w, ValueId x, c10::ScalarType type) {
  Moments m = MomentsInOneReading(g, w, x, PointDims(g.value(x)), type);
  const Dim samples = g.value(x).sizes[0];
  if (samples == Dim(1)) return m;
  const Moments between = MomentsInOneReading(g, w, m.mean, {0}, type);
  const Dim each = w.Product(PointDims(g.value(x)), x);
  m.variance =
      w.Binary(OpName::kAddTensor, SumOver(w, m.variance, {0}), w.WithDim(OpName::kMulScalar, between.variance, each));
  m.mean = between.mean;
  return m;
}

// Of each sample's points first, while they are in cache; samples are joined by their means' distances.
Moments ChannelMoments(Graph& g, NodeWriter& w, ValueId input, c10::ScalarType type) {
  if (!ir::IsContiguous(g.exprs, g.value(input))) return MomentsOfLastChannels(g, w, input, type);
  const ValueId x = w.To(input, type);
  const Dims points = PointDims(g.value(x));
  const Dim each = w.Product(points, x);
  if (points.empty() || each == Dim(1)) {
    Moments m = MomentsOf(w, x, {0}, Dim(1));
    m.mean = w.value(x).sizes[0] == Dim(1) ? x : m.mean;
    return m;
  }
  const ValueId own_mean = w.WithDim(OpName::kDivScalar, SumOver(w, x, points), each);
  const ValueId centred = w.Binary(OpName::kSubTensor, x, own_mean);
  const ValueId own_squares = SumOver(w, w.Binary(OpName::kMulTensor, centred, centred), points);
  if (w.value(x).sizes[0] == Dim(1)) return {own_mean, centred, own_squares};
  const Dim samples = w.value(x).sizes[0];
  Moments m;
  m.mean = w.WithDim(OpName::kDivScalar, SumOver(w, own_mean, {0}), samples);
  m.centred = w.Binary(OpName::kSubTensor, x, m.mean);
  const ValueId distance = w.Binary(OpName::kSubTensor, own_mean, m.mean);
  const ValueId between =
      w.WithDim(OpName::kMulScalar, SumOver(w, w.Binary(OpName::kMulTensor, distance, distance), {0}), each);
  m.variance = w.Binary(OpName::kAddTensor, SumOver(w, own_squares, {0}), between);
  return m;
}

// (x - mean) (invstd weight) + bias: a shift by mean invstd weight would cancel where the mean is large.
void Normalise(Graph& g, const Node& n, NodeWriter& w, ValueId x, ValueId mean, ValueId invstd) {
  const c10::ScalarType type = g.value(x).dtype;
  const ir::Value in = g.value(x);
  const ValueId scale =
      IsGiven(n.args[1]) ? w.Binary(OpName::kMulTensor, invstd, OfChannels(g, w, n.args[1].value, in, type)) : invstd;
  ValueId y = w.Binary(OpName::kMulTensor, w.Binary(OpName::kSubTensor, x, mean), scale);
  if (IsGiven(n.args[2])) y = w.Binary(OpName::kAddTensor, y, OfChannels(g, w, n.args[2].value, in, type));
  w.Into(n.outputs[0]).To(y, g.value(n.outputs[0]).dtype);
}

void EmptyInto(const Graph& g, const Node& n, NodeWriter& w, ValueId out) {
  if (out == kNoValue) return;
  const ir::Value like = g.value(out);
  const Arg none = Arg::Constant(c10::List<std::int64_t>({0}));
  w.Into(out).Call(OpName::kNewEmpty, {n.args[0], none, Arg::Constant(static_cast<std::int64_t>(like.dtype))}, like);
}

// A value of [C] spread over x, so that what is computed of it is part of x's kernel, once a row.
ValueId SpreadOver(Graph& g, NodeWriter& w, ValueId v, const ir::Value& x, const Dims& sizes, c10::ScalarType type) {
  Dims strides(sizes.size(), 0);
  strides[1] = 1;
  ir::Value spread = g.value(v);
  spread.sizes = x.sizes;
  spread.strides.assign(strides.begin(), strides.end());
  const auto list = [](const Dims& dims) { return Arg::Constant(c10::List<std::int64_t>(dims)); };
  return w.To(w.Call(OpName::kAsStrided, {Arg::OfValue(v), list(sizes), list(strides)}, spread), type);
}

// input, weight, bias, running_mean, running_var, [training,] momentum, eps. cudnn's form has a third result.
template <bool says_training>
bool BatchNormInference(Graph& g, const Node& n, NodeWriter w) {
  const bool tracked = IsGiven(n.args[3]) && IsGiven(n.args[4]);
  const ir::Value in = g.value(n.args[0].value);
  const bool rows = ir::IsContiguous(g.exprs, in);
  if (!tracked || !HasChannels(in) || !(rows || IsChannelsLast(g.exprs, in))) return false;
  const std::optional<Dims> sizes = Constants(in.sizes);
  const c10::ScalarType type = Wide(in.dtype);
  const ValueId x = w.To(n.args[0].value, type);
  const auto of_channels = [&](std::size_t a) {
    const ValueId v = n.args[a].value;
    const bool spreads = rows && sizes && in.sizes[1] != Dim(1) && ir::IsContiguous(g.exprs, g.value(v));
    return spreads ? SpreadOver(g, w, v, in, *sizes, type) : OfChannels(g, w, v, in, type);
  };
  const double eps = n.args[says_training ? 7 : 6].constant.toDouble();
  ValueId scale = w.Unary(OpName::kRsqrt, w.WithNumber(OpName::kAddScalar, of_channels(4), eps));
  if (IsGiven(n.args[1])) scale = w.Binary(OpName::kMulTensor, scale, of_channels(1));
  ValueId shift = w.Unary(OpName::kNeg, w.Binary(OpName::kMulTensor, of_channels(3), scale));
  if (IsGiven(n.args[2])) shift = w.Binary(OpName::kAddTensor, shift, of_channels(2));
  const ValueId y = w.Binary(OpName::kAddTensor, w.Binary(OpName::kMulTensor, x, scale), shift);
  w.Into(n.outputs[0]).To(y, g.value(n.outputs[0]).dtype);
  for (std::size_t o = 1; o < n.outputs.size(); ++o) EmptyInto(g, n, w, n.outputs[o]);
  return true;
}

// Where an operator of training has its arguments (input, weight, bias, ...) and results (y, mean, invstd, ...); 0: it
// has none.
struct TrainingArguments {
  std::size_t training, momentum, eps;
  std::size_t reserve, statistics;  // results: what cuDNN keeps, and the first of the new running statistics
};

template <TrainingArguments where>
bool BatchNormTraining(Graph& g, const Node& n, NodeWriter w) {
  if (where.training != 0 && !n.args[where.training].constant.toBool()) return false;
  if (!IsBatchNormInput(g, n.args[0].value)) return false;
  const ir::Value in = g.value(n.args[0].value);
  const c10::ScalarType type = Wide(in.dtype);
  Dims all = PointDims(in);
  all.push_back(0);
  const Dim count = w.Product(all, n.args[0].value);
  const Moments m = ChannelMoments(g, w, n.args[0].value, type);
  const ValueId variance = w.WithDim(OpName::kDivScalar, m.variance, count);
  const ValueId invstd =
      w.Unary(OpName::kRsqrt, w.WithNumber(OpName::kAddScalar, variance, n.args[where.eps].constant.toDouble()));
  Normalise(g, n, w, w.To(n.args[0].value, type), m.mean, invstd);
  const auto into = [&](ValueId out, ValueId v) {
    if (out != kNoValue) InShape(g, w, out, v);
  };
  into(n.outputs[1], m.mean);
  into(n.outputs[2], invstd);
  if (where.reserve != 0) EmptyInto(g, n, w, n.outputs[where.reserve]);
  if (where.statistics == 0) return true;
  const double momentum = n.args[where.momentum].constant.toDouble();
  const auto moved = [&](std::size_t argument, ValueId out, ValueId now) {
    const ValueId old =
        w.WithNumber(OpName::kMulScalar, OfChannels(g, w, n.args[argument].value, in, type), 1 - momentum);
    into(out, w.Binary(OpName::kAddTensor, w.WithNumber(OpName::kMulScalar, now, momentum), old));
  };
  moved(3, n.outputs[where.statistics], m.mean);
  const ValueId unbiased = w.WithDim(OpName::kDivScalar, m.variance, g.exprs.Make(ir::ExprKind::kAdd, count, Dim(-1)));
  moved(4, n.outputs[where.statistics + 1], unbiased);
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

// grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask. Any strides of the
// gradient are read.
bool BatchNormBackward(Graph& g, const Node& n, NodeWriter w) {
  if (!IsBatchNormInput(g, n.args[1].value)) return false;
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
  if (!training)
    invstd = w.Unary(OpName::kRsqrt, w.WithNumber(OpName::kAddScalar, invstd, n.args[8].constant.toDouble()));
  const Dims points = PointDims(in);
  const auto over_channel = [&](ValueId v) { return SumOver(w, points.empty() ? v : SumOver(w, v, points), {0}); };
  const ValueId centred = w.Binary(OpName::kSubTensor, x, mean);
  const ValueId sum = over_channel(grad), along = over_channel(w.Binary(OpName::kMulTensor, grad, centred));
  if (n.outputs[0] != kNoValue) {
    const ValueId scale =
        IsGiven(n.args[2]) ? w.Binary(OpName::kMulTensor, invstd, OfChannels(g, w, n.args[2].value, in, type)) : invstd;
    ValueId rest = grad;
    if (training) {
      const Dim count = w.Product(all, x);
      const ValueId slope = w.WithDim(
          OpName::kDivScalar, w.Binary(OpName::kMulTensor, along, w.Binary(OpName::kMulTensor, invstd, invstd)), count);
      rest =
          w.Binary(OpName::kSubTensor, w.Binary(OpName::kSubTensor, grad, w.Binary(OpName::kMulTensor, centred, slope)),
                   w.WithDim(OpName::kDivScalar, sum, count));
    }
    const ValueId dx = w.Binary(OpName::kMulTensor, rest, scale);
    w.Into(n.outputs[0]).To(dx, g.value(n.outputs[0]).dtype);
  }
  const auto into = [&](ValueId out, ValueId v) {
    if (out != kNoValue) InShape(g, w, out, v);
  };
  into(n.outputs[1], w.Binary(OpName::kMulTensor, along, invstd));
  into(n.outputs[2], sum);
  return true;
}

bool Trains(const Node& n) { return n.args[5].constant.toBool(); }

bool BatchNorm(Graph& g, const Node& n, NodeWriter w) { return !Trains(n) && BatchNormInference<true>(g, n, w); }

bool CudnnBatchNorm(Graph& g, const Node& n, NodeWriter w) {
  constexpr TrainingArguments kArguments = {5, 6, 7, 3, 0};
  return Trains(n) ? BatchNormTraining<kArguments>(g, n, w) : BatchNormInference<true>(g, n, w);
}

}  // namespace

absl::Span<const DecompositionRow> BatchNormRows() {
  constexpr TrainingArguments kLegit = {5, 6, 7, 0, 3}, kNoStatistics = {3, 4, 5, 0, 0}, kUpdate = {0, 5, 6, 3, 4};
  static constexpr DecompositionRow kRows[] = {
      {OpName::k_NativeBatchNormLegitNoTraining, BatchNormInference<false>},
      {OpName::kNativeBatchNorm, BatchNorm},
      {OpName::kCudnnBatchNorm, CudnnBatchNorm},
      {OpName::k_NativeBatchNormLegitFunctional, BatchNormTraining<kLegit>},
      {OpName::k_NativeBatchNormLegitNoStats, BatchNormTraining<kNoStatistics>},
      {OpName::k_BatchNormWithUpdateFunctional, BatchNormTraining<kUpdate>},
      {OpName::kNativeBatchNormBackward, BatchNormBackward},
  };
  return kRows;
}

absl::StatusOr<bool> UseNativeBatchNormGradients(Graph& g) {
  bool changed = false;
  for (Node& n : g.nodes) {
    const bool cudnn = ir::Is(n.op, OpName::kCudnnBatchNormBackward);
    if (!cudnn && !ir::Is(n.op, OpName::kBatchNormBackward)) continue;
    n.args.pop_back();  // what was reserved
    if (cudnn) {        // input, grad, ..., eps
      std::swap(n.args[0], n.args[1]);
      n.args.insert(n.args.begin() + 7, Arg::Constant(true));
      n.args.push_back(Arg::Constant(c10::List<bool>({true, true, true})));
    }
    n.op = ir::RequireOp(OpName::kNativeBatchNormBackward);
    changed = true;
  }
  return changed;
}

}  // namespace framefuse::fusion
