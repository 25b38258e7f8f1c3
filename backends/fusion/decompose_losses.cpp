// Losses. nll_loss, what is left of a cross-entropy behind its log_softmax, is a pick of one element of each row
// (reduction.h) and sums; its backward a number in one column of each row. See decompose_rules.h.
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>

#include <string>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/formula.h"
#include "backends/fusion/pointwise.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

namespace {

constexpr std::int64_t kNone = 0, kMean = 1;

// Whether the form has kernels: [N, C] and [N].
bool HasRows(const Graph& g, const Node& n, std::size_t input) {
  const ir::Value &in = g.value(n.args[input].value), &target = g.value(n.args[input + 1].value);
  if (!IsRealFloat(in) || in.sizes.size() != 2 || target.sizes.size() != 1) return false;
  if (target.dtype != c10::ScalarType::Long || !in.sizes[1].is_constant() || in.sizes[1].constant() < 2) return false;
  if (target.sizes[0] == Dim(0)) return false;
  if (const Arg& weight = n.args[input + 2]; IsGiven(weight) && !IsRealFloat(g.value(weight.value))) return false;
  for (std::size_t a : {input + 3, input + 4}) {
    if (n.args[a].kind != Arg::Kind::kConstant) return false;
  }
  return true;
}

// Minus the element of each row of `of` that the target names; 0 where it is to be ignored.
ValueId Pick(Graph& g, const Node& n, NodeWriter& w, ValueId of) {
  ir::Value rows = g.value(n.args[1].value);
  rows.dtype = g.value(of).dtype;
  rows.storage = -1;
  rows.strides = {Dim(1)};
  return w.Call(OpName::kNllLossForward, {Arg::OfValue(of), n.args[1], Arg::None(), Arg::Constant(kNone), n.args[4]},
                rows);
}

// How many targets count, or the sum of their weights.
ValueId TotalWeight(Graph& g, const Node& n, NodeWriter& w, c10::ScalarType type) {
  ir::Value flags = g.value(n.args[1].value);
  flags.dtype = c10::ScalarType::Bool;
  flags.storage = -1;
  flags.strides = {Dim(1)};
  // In the shape [1], which one kernel has for all of it.
  if (!IsGiven(n.args[2])) {
    return w.Reduce(OpName::kSumDimIntList, w.To(w.Call(OpName::kNeScalar, {n.args[1], n.args[4]}, flags), type), {0},
                    true);
  }
  ir::Value spread = g.value(n.args[2].value);
  spread.sizes = g.value(n.args[0].value).sizes;
  spread.strides.insert(spread.strides.begin(), Dim(0));
  const ValueId weights = w.Call(OpName::kExpand, {n.args[2], Arg::OfDims(spread.sizes)}, spread);
  return w.Unary(OpName::kNeg, w.Reduce(OpName::kSumDimIntList, w.To(Pick(g, n, w, weights), type), {0}, true));
}

// self, target, weight, reduction, ignore_index → the loss of each row, and the mean or sum of that.
bool Forward(Graph& g, const Node& n, NodeWriter w) {
  if (!HasRows(g, n, 0)) return false;
  const std::int64_t reduction = n.args[3].constant.toInt();
  const bool weighted = IsGiven(n.args[2]), alone = g.value(n.args[1].value).sizes[0] == Dim(1);
  if (reduction == kNone ? !weighted && n.outputs[1] == kNoValue : alone) return false;
  const c10::ScalarType dtype = g.value(n.args[0].value).dtype, type = Wide(dtype);
  ValueId of = n.args[0].value;
  if (weighted) of = w.Binary(OpName::kMulTensor, w.To(of, type), n.args[2].value);
  const ValueId total = n.outputs[1];
  if (reduction == kNone) {
    if (g.value(of).dtype == dtype) {
      w.Into(n.outputs[0]);
      Pick(g, n, w, of);
    } else {
      const ValueId each = Pick(g, n, w, of);
      w.Into(n.outputs[0]).To(each, dtype);
    }
    const Arg no_sizes = Arg::Constant(c10::List<std::int64_t>());
    if (total != kNoValue) w.Into(total).Call(OpName::kNewZeros, {n.args[0], no_sizes}, ir::Value(g.value(total)));
    return true;
  }
  const ValueId each = Pick(g, n, w, of), count = TotalWeight(g, n, w, type);
  const ValueId sum = w.Reduce(OpName::kSumDimIntList, w.To(each, type), {0}, true);
  const auto into = [&](ValueId out, ValueId value) {
    if (out == kNoValue) return;
    const ValueId typed = w.To(value, g.value(out).dtype);
    w.Into(out).View(typed, {});
  };
  into(n.outputs[0], reduction == kMean ? w.Binary(OpName::kDivTensor, sum, count) : sum);
  into(total, count);
  return true;
}

// [N] → [N, 1]
ValueId AsColumn(Graph& g, NodeWriter& w, ValueId v) {
  ir::Value column = g.value(v);
  column.sizes.push_back(Dim(1));
  column.strides.push_back(Dim(1));
  return w.Call(OpName::kUnsqueeze, {Arg::OfValue(v), Arg::Constant(std::int64_t{1})}, column);
}

// Targets are compared as 32-bit numbers: that an ignored one is not a class has to show in those.
bool ComparesNarrow(std::int64_t ignored) { return ignored == static_cast<std::int32_t>(ignored); }

// Where the target names the column, in the shape of `in`.
ValueId Named(Graph& g, const Node& n, NodeWriter& w, const ir::Value& in, ir::Value plane) {
  const std::int64_t columns = in.sizes[1].constant(), ignored = n.args[5].constant.toInt();
  const at::TensorOptions options = at::TensorOptions().device(in.device).dtype(c10::ScalarType::Int);
  const ValueId column = g.AddConstant(at::arange(columns, options));
  const ValueId target = w.To(AsColumn(g, w, n.args[2].value), c10::ScalarType::Int);
  plane.dtype = c10::ScalarType::Bool;
  const ValueId match = w.Call(OpName::kEqTensor, {Arg::OfValue(column), Arg::OfValue(target)}, plane);
  if (ignored < 0 || ignored >= columns) return match;
  ir::Value flags = g.value(column);
  flags.dtype = c10::ScalarType::Bool;
  const ValueId kept = w.Call(OpName::kNeScalar, {Arg::OfValue(column), n.args[5]}, flags);
  return w.Call(OpName::kLogicalAnd, {Arg::OfValue(match), Arg::OfValue(kept)}, plane);
}

// grad, self, target, weight, reduction, ignore_index, total_weight: a number in one column of each row.
bool Backward(Graph& g, const Node& n, NodeWriter w) {
  if (!HasRows(g, n, 1)) return false;
  const ir::Value in = g.value(n.args[1].value);
  const std::int64_t reduction = n.args[4].constant.toInt();
  if (in.sizes[1].constant() > (1 << 18) || !ComparesNarrow(n.args[5].constant.toInt())) return false;
  const c10::ScalarType type = Wide(in.dtype);
  ir::Value plane = in;
  plane.storage = -1;
  plane.strides = ir::ContiguousStrides(g.exprs, in.sizes);
  const ValueId match = Named(g, n, w, in, plane);
  const ValueId grad = reduction == kNone ? AsColumn(g, w, n.args[0].value) : n.args[0].value;
  ValueId scale = w.Unary(OpName::kNeg, w.To(grad, type));
  if (reduction == kMean) scale = w.Binary(OpName::kDivTensor, scale, w.To(n.args[6].value, type));
  if (IsGiven(n.args[3])) {
    // Of no dimension it would take the type of the weights.
    if (g.value(scale).rank() == 0 && g.value(n.args[3].value).dtype != type) scale = w.View(scale, {1, 1});
    scale = w.Binary(OpName::kMulTensor, scale, n.args[3].value);
  }
  const ValueId zero = g.AddConstant(at::scalar_tensor(0, at::TensorOptions().dtype(type)));
  plane.dtype = type;
  const bool exact = type == in.dtype && g.value(n.outputs[0]).strides == plane.strides;
  if (exact) w.Into(n.outputs[0]);
  const ValueId dx = w.Call(OpName::kWhereSelf, {Arg::OfValue(match), Arg::OfValue(scale), Arg::OfValue(zero)}, plane);
  if (!exact) w.Into(n.outputs[0]).To(dx, in.dtype);
  return true;
}

// --- losses of pairs of elements

// The mean or sum of `each`, or it itself.
bool IsReduced(Graph& g, NodeWriter& w, ValueId out, ValueId each, std::int64_t reduction) {
  if (reduction == kNone) {
    w.Into(out).To(each, g.value(out).dtype);
    return true;
  }
  Dims all = LastDims(g.value(each), g.value(each).sizes.size());
  const Dim count = w.Product(all, each);
  if (all.empty() || count == Dim(0)) return false;
  const ValueId sum = w.Reduce(OpName::kSumDimIntList, each, all, true);
  InShape(g, w, out, reduction == kMean ? w.WithDim(OpName::kDivScalar, sum, count) : sum);
  return true;
}

// An argument that is not there where a loss has no such number.
double NumberOr(const Node& n, std::size_t a, double otherwise) {
  return n.args.size() > a ? n.args[a].constant.toScalar().toDouble() : otherwise;
}

ValueId SmoothL1(Formula& f, ValueId distance, double beta) {
  const ValueId near = f.Times(f.Mul(distance, distance), beta == 0 ? 0 : 0.5 / beta);
  return f.Where(f.Compare(OpName::kLtScalar, distance, beta), near, f.Plus(distance, -0.5 * beta));
}

ValueId Huber(Formula& f, ValueId distance, double delta) {
  const ValueId near = f.Times(f.Mul(distance, distance), 0.5), far = f.Times(f.Plus(distance, -0.5 * delta), delta);
  return f.Where(f.Compare(OpName::kLeScalar, distance, delta), near, far);
}

// self, target, reduction, and the number of some.
bool PairLoss(Graph& g, const Node& n, NodeWriter w) {
  const OpName name = ir::NameOf(n.op);
  Formula f(&g, &w, n, n.outputs[0]);
  const ValueId difference = f.Sub(f.Tensor(0), f.Tensor(1));
  ValueId each;
  if (name == OpName::kMseLoss) {
    each = f.Mul(difference, difference);
  } else {
    const ValueId distance = f.Unary(OpName::kAbs, difference);
    each =
        name == OpName::kHuberLoss ? Huber(f, distance, NumberOr(n, 3, 1)) : SmoothL1(f, distance, NumberOr(n, 3, 1));
  }
  return IsReduced(g, w, n.outputs[0], each, n.args[2].constant.toInt());
}

// grad, self, target, reduction, and the number of some.
bool PairLossBackward(Graph& g, const Node& n, NodeWriter w) {
  const OpName name = ir::NameOf(n.op);
  Formula f(&g, &w, n, n.outputs[0]);
  const ValueId x = f.Tensor(1), difference = f.Sub(x, f.Tensor(2));
  ValueId grad = f.Tensor(0);
  if (n.args[3].constant.toInt() == kMean) {
    const Dim count = w.Product(LastDims(g.value(difference), g.value(difference).sizes.size()), difference);
    if (count == Dim(0)) return false;
    grad = w.WithDim(OpName::kDivScalar, grad, count);
  }
  ValueId dx;
  if (name == OpName::kMseLossBackward) {
    dx = f.Mul(f.Times(difference, 2), grad);
  } else {
    const bool huber = name == OpName::kHuberLossBackward;
    const double edge = NumberOr(n, 4, 1);
    const ValueId far = huber ? f.Times(grad, edge) : grad;
    const ValueId near = f.Times(f.Mul(difference, grad), huber ? 1 : 1 / edge);
    const ValueId rest = f.Where(f.Compare(OpName::kGeScalar, difference, edge), far, near);
    dx = f.Where(f.Compare(OpName::kLeScalar, difference, -edge), f.Unary(OpName::kNeg, far), rest);
  }
  f.Is(n.outputs[0], dx);
  return true;
}

// self, target, weight, pos_weight, reduction: (1 - t) x - (1 + (p - 1) t) log sigmoid(x)
bool LogitsLoss(Graph& g, const Node& n, NodeWriter w) {
  for (std::size_t a : {2u, 3u}) {
    if (IsGiven(n.args[a]) && !IsRealFloat(g.value(n.args[a].value))) return false;
  }
  Formula f(&g, &w, n, n.outputs[0]);
  const ValueId x = f.Tensor(0), target = f.Tensor(1);
  const ValueId power = f.Unary(OpName::kExp, f.Unary(OpName::kNeg, f.Unary(OpName::kAbs, x)));
  const ValueId below = f.Where(f.Compare(OpName::kGtScalar, x, 0), 0.0, x);
  ValueId log = f.Sub(below, f.Unary(OpName::kLog1p, power));
  if (IsGiven(n.args[3])) log = f.Mul(log, f.Plus(f.Mul(f.Plus(f.Tensor(3), -1), target), 1));
  ValueId each = f.Sub(f.Mul(f.Plus(f.Unary(OpName::kNeg, target), 1), x), log);
  if (IsGiven(n.args[2])) each = f.Mul(each, f.Tensor(2));
  return IsReduced(g, w, n.outputs[0], each, n.args[4].constant.toInt());
}

// Of one type; constants where numbers are.
bool HasPairs(const Graph& g, const Node& n, std::size_t input) {
  const ir::Value &x = g.value(n.args[input].value), &y = g.value(n.args[input + 1].value);
  if (!IsRealFloat(x) || x.dtype != y.dtype || x.sizes.empty() || n.outputs[0] == kNoValue) return false;
  if (g.value(n.outputs[0]).dtype != x.dtype || x.sizes != y.sizes) return false;
  for (std::size_t a = input + 2; a < n.args.size(); ++a) {
    if (n.args[a].kind == Arg::Kind::kDim || n.args[a].kind == Arg::Kind::kDimList) return false;
  }
  return true;
}

template <Decomposition rule, std::size_t input>
bool OfPairs(Graph& g, const Node& n, NodeWriter w) {
  return HasPairs(g, n, input) && rule(g, n, w);
}

}  // namespace

absl::Span<const DecompositionRow> LossRows() {
  static constexpr DecompositionRow kRows[] = {
      {OpName::kNllLossForward, Forward},
      {OpName::kNllLossBackward, Backward},
      {OpName::kBinaryCrossEntropyWithLogits, OfPairs<LogitsLoss, 0>},
      {OpName::kMseLoss, OfPairs<PairLoss, 0>},
      {OpName::kSmoothL1Loss, OfPairs<PairLoss, 0>},
      {OpName::kHuberLoss, OfPairs<PairLoss, 0>},
      {OpName::kMseLossBackward, OfPairs<PairLossBackward, 1>},
      {OpName::kSmoothL1LossBackward, OfPairs<PairLossBackward, 1>},
      {OpName::kHuberLossBackward, OfPairs<PairLossBackward, 1>},
  };
  return kRows;
}

}  // namespace framefuse::fusion
