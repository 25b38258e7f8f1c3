// nll_loss, what is left of a cross-entropy behind its log_softmax, as a pick of one element of each row (reduction.h)
// and sums; its backward as a number in one column of each row. See decompose_rules.h. Owner: backends/fusion.
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>

#include <string>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/pointwise.h"

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
  if (target.dtype != c10::ScalarType::Long || !in.sizes[1].is_constant() || in.sizes[1].value < 2) return false;
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
  return w.Call("aten.nll_loss_forward", {Arg::OfValue(of), n.args[1], Arg::None(), Arg::Constant(kNone), n.args[4]},
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
    return w.Reduce("sum", w.To(w.Call("aten.ne.Scalar", {n.args[1], n.args[4]}, flags), type), {0}, true);
  }
  ir::Value spread = g.value(n.args[2].value);
  spread.sizes = g.value(n.args[0].value).sizes;
  spread.strides.insert(spread.strides.begin(), Dim(0));
  const ValueId weights = w.Call("aten.expand", {n.args[2], Arg::OfDims(spread.sizes)}, spread);
  return w.Unary("neg", w.Reduce("sum", w.To(Pick(g, n, w, weights), type), {0}, true));
}

// self, target, weight, reduction, ignore_index → the loss of each row, and the mean or sum of that.
bool Forward(Graph& g, const Node& n, NodeWriter w) {
  if (!HasRows(g, n, 0)) return false;
  const std::int64_t reduction = n.args[3].constant.toInt();
  const bool weighted = IsGiven(n.args[2]), alone = g.value(n.args[1].value).sizes[0] == Dim(1);
  if (reduction == kNone ? !weighted && n.outputs[1] == kNoValue : alone) return false;
  const c10::ScalarType dtype = g.value(n.args[0].value).dtype, type = Wide(dtype);
  ValueId of = n.args[0].value;
  if (weighted) of = w.Binary("mul", w.To(of, type), n.args[2].value);
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
    if (total != kNoValue) w.Into(total).Call("aten.new_zeros", {n.args[0], no_sizes}, ir::Value(g.value(total)));
    return true;
  }
  const ValueId each = Pick(g, n, w, of), count = TotalWeight(g, n, w, type);
  const ValueId sum = w.Reduce("sum", w.To(each, type), {0}, true);
  const auto into = [&](ValueId out, ValueId value) {
    if (out == kNoValue) return;
    const ValueId typed = w.To(value, g.value(out).dtype);
    w.Into(out).View(typed, {});
  };
  into(n.outputs[0], reduction == kMean ? w.Binary("div", sum, count) : sum);
  into(total, count);
  return true;
}

// [N] → [N, 1]
ValueId AsColumn(Graph& g, NodeWriter& w, ValueId v) {
  ir::Value column = g.value(v);
  column.sizes.push_back(Dim(1));
  column.strides.push_back(Dim(1));
  return w.Call("aten.unsqueeze", {Arg::OfValue(v), Arg::Constant(std::int64_t{1})}, column);
}

// Where the target names the column, in the shape of `in`.
ValueId Named(Graph& g, const Node& n, NodeWriter& w, const ir::Value& in, ir::Value plane) {
  const std::int64_t columns = in.sizes[1].value, ignored = n.args[5].constant.toInt();
  const at::TensorOptions options = at::TensorOptions().device(in.device).dtype(c10::ScalarType::Int);
  const ValueId column = g.AddConstant(at::arange(columns, options));
  const ValueId target = w.To(AsColumn(g, w, n.args[2].value), c10::ScalarType::Int);
  plane.dtype = c10::ScalarType::Bool;
  const ValueId match = w.Call("aten.eq.Tensor", {Arg::OfValue(column), Arg::OfValue(target)}, plane);
  if (ignored < 0 || ignored >= columns) return match;
  ir::Value flags = g.value(column);
  flags.dtype = c10::ScalarType::Bool;
  const ValueId kept = w.Call("aten.ne.Scalar", {Arg::OfValue(column), n.args[5]}, flags);
  return w.Call("aten.logical_and", {Arg::OfValue(match), Arg::OfValue(kept)}, plane);
}

// grad, self, target, weight, reduction, ignore_index, total_weight: a number in one column of each row.
bool Backward(Graph& g, const Node& n, NodeWriter w) {
  if (!HasRows(g, n, 1)) return false;
  const ir::Value in = g.value(n.args[1].value);
  const std::int64_t reduction = n.args[4].constant.toInt();
  if (in.sizes[1].value > (1 << 18)) return false;
  const c10::ScalarType type = Wide(in.dtype);
  ir::Value plane = in;
  plane.storage = -1;
  plane.strides = ir::ContiguousStrides(g.exprs, in.sizes);
  const ValueId match = Named(g, n, w, in, plane);
  const ValueId grad = reduction == kNone ? AsColumn(g, w, n.args[0].value) : n.args[0].value;
  ValueId scale = w.Unary("neg", w.To(grad, type));
  if (reduction == kMean) scale = w.Binary("div", scale, w.To(n.args[6].value, type));
  if (IsGiven(n.args[3])) scale = w.Binary("mul", scale, n.args[3].value);
  const ValueId zero = g.AddConstant(at::scalar_tensor(0, at::TensorOptions().dtype(type)));
  plane.dtype = type;
  const bool exact = type == in.dtype && g.value(n.outputs[0]).strides == plane.strides;
  if (exact) w.Into(n.outputs[0]);
  const ValueId dx = w.Call("aten.where.self", {Arg::OfValue(match), Arg::OfValue(scale), Arg::OfValue(zero)}, plane);
  if (!exact) w.Into(n.outputs[0]).To(dx, in.dtype);
  return true;
}

}  // namespace

bool DecomposeNllLoss(Graph& g, const Node& n, NodeWriter w) {
  if (n.op->name() == "aten.nll_loss_forward") return Forward(g, n, w);
  return n.op->name() == "aten.nll_loss_backward" && Backward(g, n, w);
}

}  // namespace framefuse::fusion
