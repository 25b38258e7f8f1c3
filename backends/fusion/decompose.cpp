// See decompose.h. Owner: backends/fusion.
#include "backends/fusion/decompose.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>

#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// The last dimension, with unit stride: rows that a kernel can walk.
bool IsLastDim(const Graph& g, ValueId v, std::int64_t dim) {
  const ir::Value& value = g.value(v);
  const auto rank = static_cast<std::int64_t>(value.sizes.size());
  if (rank == 0 || !IsRealFloat(value)) return false;
  return (dim < 0 ? dim + rank : dim) == rank - 1 && value.sizes.back() != Dim(0);
}

bool Softmax(Graph& g, const Node& n, NodeWriter w, bool log) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  if (!IsLastDim(g, x, n.args[1].constant.toInt())) return false;
  const Dims dims = LastDims(g.value(x), 1);
  const ValueId wide = w.To(x, Wide(g.value(x).dtype));
  const ValueId shifted = w.Binary("sub", wide, w.Reduce("amax", wide, dims, true));
  const ValueId e = w.Unary("exp", shifted);
  const ValueId sum = w.Reduce("sum", e, dims, true);
  const ValueId by = log ? w.Unary("log", sum) : w.Unary("reciprocal", sum);
  const bool exact = g.value(wide).dtype == g.value(out).dtype;
  if (exact) w.Into(out);
  const ValueId y = log ? w.Binary("sub", shifted, by) : w.Binary("mul", e, by);
  if (!exact) w.Into(out).To(y, g.value(out).dtype);
  return true;
}

// dx = g o - o sum(g o); of the log: g - exp(o) sum(g)
bool SoftmaxBackward(Graph& g, const Node& n, NodeWriter w, bool log) {
  const ValueId out = n.outputs[0];
  if (!IsLastDim(g, n.args[1].value, n.args[2].constant.toInt())) return false;
  const c10::ScalarType type = Wide(g.value(n.args[1].value).dtype);
  const Dims dims = LastDims(g.value(n.args[1].value), 1);
  const ValueId grad = w.To(n.args[0].value, type), o = w.To(n.args[1].value, type);
  ValueId left = grad, right = kNoValue;
  if (log) {
    const ValueId sum = w.Reduce("sum", grad, dims, true);
    right = w.Binary("mul", w.Unary("exp", o), sum);
  } else {
    left = w.Binary("mul", grad, o);
    right = w.Binary("mul", o, w.Reduce("sum", left, dims, true));
  }
  if (g.value(out).dtype == type) {
    w.Into(out).Binary("sub", left, right);
  } else {
    const ValueId y = w.Binary("sub", left, right);
    w.Into(out).To(y, g.value(out).dtype);
  }
  return true;
}

// Dimensions of an optional int[] argument; all if it is empty or None.
Dims DimsOf(const Graph& g, ValueId x, const Arg& arg) {
  const auto rank = static_cast<std::int64_t>(g.value(x).sizes.size());
  Dims dims;
  if (IsGiven(arg) && arg.constant.isIntList()) dims = arg.constant.toIntVector();
  if (dims.empty()) {
    dims.resize(static_cast<std::size_t>(rank));
    std::iota(dims.begin(), dims.end(), std::int64_t{0});
  }
  for (std::int64_t& d : dims) d = d < 0 ? d + rank : d;
  return dims;
}

bool Mean(Graph& g, const Node& n, NodeWriter w, bool full) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const c10::ScalarType type = g.value(out).dtype;
  if (!IsRealFloat(g.value(x)) || !IsRealFloat(g.value(out)) || g.value(x).sizes.empty()) return false;
  const Dims dims = full ? DimsOf(g, x, Arg::None()) : DimsOf(g, x, n.args[1]);
  if (w.Product(dims, x) == Dim(0)) return false;
  const bool keep = !full && n.args[2].constant.toBool();
  const ValueId sum = w.Reduce("sum", w.To(x, Wide(type)), dims, keep);
  if (Wide(type) == type) {
    w.Into(out).WithDim("div", sum, w.Product(dims, x));
  } else {
    const ValueId y = w.WithDim("div", sum, w.Product(dims, x));
    w.Into(out).To(y, type);
  }
  return true;
}

bool FullSum(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty() || g.value(x).dtype != g.value(out).dtype) return false;
  w.Into(out).Reduce("sum", x, DimsOf(g, x, Arg::None()), false);
  return true;
}

// self, dim, correction, keepdim; with_mean: var_mean
bool Variance(Graph& g, const Node& n, NodeWriter w, bool with_mean) {
  const ValueId x = n.args[0].value;
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty()) return false;
  const Dims dims = DimsOf(g, x, n.args[1]);
  const Dim count = w.Product(dims, x);
  const bool keep = n.args[3].constant.toBool();
  const double correction = IsGiven(n.args[2]) ? n.args[2].constant.toScalar().toDouble() : 1;
  // Without elements left the divisor is 0 or below: eager's rules for that are its own.
  if (!keep || !count.is_constant() || static_cast<double>(count.value) <= correction) return false;
  if (correction != static_cast<double>(static_cast<std::int64_t>(correction))) return false;
  const c10::ScalarType type = g.value(x).dtype;
  const Moments m = MomentsOf(w, w.To(x, Wide(type)), dims, Dim(count.value - static_cast<std::int64_t>(correction)));
  w.Into(n.outputs[0]).To(m.variance, type);
  if (with_mean && n.outputs[1] != kNoValue) w.Into(n.outputs[1]).To(m.mean, type);
  return true;
}

// aten._foreach_<op>.<overload> → one aten.<op>.<Tensor or Scalar> for each element.
bool Foreach(Graph& g, const Node& n, NodeWriter w) {
  constexpr std::string_view kPrefix = "aten._foreach_";
  const std::string& name = n.op->name();
  const std::string rest = name.substr(kPrefix.size());
  const std::size_t dot = rest.find('.');
  const std::string base = rest.substr(0, dot), overload = dot == std::string::npos ? "" : rest.substr(dot + 1);
  static const auto* kTernary = new std::unordered_map<std::string, std::string>{
      {"addcmul.Scalar", "aten.addcmul"}, {"addcdiv.Scalar", "aten.addcdiv"}, {"lerp.Scalar", "aten.lerp.Scalar"}};
  std::string target;
  if (const auto it = kTernary->find(rest); it != kTernary->end()) {
    target = it->second;
  } else if (overload == "List" || overload == "Tensor") {
    target = base == "maximum" || base == "minimum" ? "aten." + base : "aten." + base + ".Tensor";
  } else if (overload == "Scalar" || overload == "ScalarList") {
    target = base == "pow" ? "aten.pow.Tensor_Scalar" : "aten." + base + ".Scalar";
  } else {
    target = "aten." + base;
  }
  if (!ir::FindOp(target).ok() || n.args[0].kind != Arg::Kind::kValueList) return false;
  const std::size_t arguments = ir::RequireOp(target)->arguments().size();
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    std::vector<Arg> args;
    for (std::size_t a = 0; a < std::min(arguments, n.args.size()); ++a) {
      const Arg& arg = n.args[a];
      if (arg.kind == Arg::Kind::kValueList) {
        args.push_back(Arg::OfValue(arg.values[i]));
      } else if (overload == "ScalarList" && arg.kind == Arg::Kind::kConstant && arg.constant.isList()) {
        args.push_back(Arg::Constant(arg.constant.toListRef()[i]));
      } else {
        args.push_back(arg);
      }
    }
    if (target == "aten.addcmul" || target == "aten.addcdiv") args.resize(4);
    w.Into(n.outputs[i]).Call(target, std::move(args), g.value(n.outputs[i]));
  }
  return true;
}

// Whether the form has kernels: [N, C] and [N], no weights.
bool IsPlainNllLoss(const Graph& g, const Node& n, std::size_t input) {
  const ir::Value &in = g.value(n.args[input].value), &target = g.value(n.args[input + 1].value);
  if (!IsRealFloat(in) || in.sizes.size() != 2 || target.sizes.size() != 1 || IsGiven(n.args[input + 2])) return false;
  if (target.dtype != c10::ScalarType::Long || !in.sizes[1].is_constant() || in.sizes[1].value < 2) return false;
  for (std::size_t a : {input + 3, input + 4}) {
    if (n.args[a].kind != Arg::Kind::kConstant) return false;
  }
  return true;
}

// self, target, weight, reduction, ignore_index → the loss of each row, and the mean or sum of that.
bool NllLoss(Graph& g, const Node& n, NodeWriter w) {
  if (!IsPlainNllLoss(g, n, 0)) return false;
  const std::int64_t reduction = n.args[3].constant.toInt();
  const ir::Value target = g.value(n.args[1].value);
  if (reduction == 0 || target.sizes[0] == Dim(0) || target.sizes[0] == Dim(1)) return false;
  const c10::ScalarType dtype = g.value(n.args[0].value).dtype, type = Wide(dtype);
  ir::Value rows = target;
  rows.dtype = dtype;
  rows.storage = -1;
  std::vector<Arg> args = n.args;
  args[3] = Arg::Constant(std::int64_t{0});
  const ValueId each = w.Call("aten.nll_loss_forward", std::move(args), rows);
  rows.dtype = c10::ScalarType::Bool;
  const ValueId valid = w.Call("aten.ne.Scalar", {n.args[1], n.args[4]}, rows);
  // In the shape [1], which one kernel has for all of it.
  const ValueId count = w.Reduce("sum", w.To(valid, type), {0}, true);
  const ValueId sum = w.Reduce("sum", w.To(each, type), {0}, true);
  const auto into = [&](ValueId out, ValueId of) {
    if (out == kNoValue) return;
    const ValueId typed = w.To(of, g.value(out).dtype);
    w.Into(out).View(typed, {});
  };
  into(n.outputs[0], reduction == 1 ? w.Binary("div", sum, count) : sum);
  into(n.outputs[1], count);
  return true;
}

// grad, self, target, weight, reduction, ignore_index, total_weight: a number in one column of each row.
bool NllLossBackward(Graph& g, const Node& n, NodeWriter w) {
  if (!IsPlainNllLoss(g, n, 1) || n.args[4].constant.toInt() == 0) return false;
  const ir::Value in = g.value(n.args[1].value);
  const std::int64_t columns = in.sizes[1].value, ignored = n.args[5].constant.toInt();
  if (columns > (1 << 18)) return false;
  const c10::ScalarType type = Wide(in.dtype);
  const at::TensorOptions options = at::TensorOptions().device(in.device).dtype(c10::ScalarType::Int);
  const ValueId column = g.AddConstant(at::arange(columns, options));
  ir::Value rows = g.value(n.args[2].value);
  rows.sizes.push_back(Dim(1));
  rows.strides.push_back(Dim(1));
  const ValueId target = w.Call("aten.unsqueeze", {n.args[2], Arg::Constant(std::int64_t{1})}, rows);
  const ValueId named = w.To(target, c10::ScalarType::Int);
  ir::Value plane = in;
  plane.storage = -1;
  plane.strides = ir::ContiguousStrides(g.exprs, in.sizes);
  plane.dtype = c10::ScalarType::Bool;
  ValueId match = w.Call("aten.eq.Tensor", {Arg::OfValue(column), Arg::OfValue(named)}, plane);
  if (ignored >= 0 && ignored < columns) {
    ir::Value flags = g.value(column);
    flags.dtype = c10::ScalarType::Bool;
    const ValueId kept = w.Call("aten.ne.Scalar", {Arg::OfValue(column), n.args[5]}, flags);
    match = w.Call("aten.logical_and", {Arg::OfValue(match), Arg::OfValue(kept)}, plane);
  }
  ValueId scale = w.Unary("neg", w.To(n.args[0].value, type));
  if (n.args[4].constant.toInt() == 1) scale = w.Binary("div", scale, w.To(n.args[6].value, type));
  const ValueId zero = g.AddConstant(at::scalar_tensor(0, at::TensorOptions().dtype(type)));
  plane.dtype = type;
  const bool exact = type == in.dtype && g.value(n.outputs[0]).strides == plane.strides;
  if (exact) w.Into(n.outputs[0]);
  const ValueId dx = w.Call("aten.where.self", {Arg::OfValue(match), Arg::OfValue(scale), Arg::OfValue(zero)}, plane);
  if (!exact) w.Into(n.outputs[0]).To(dx, in.dtype);
  return true;
}

bool DecomposeNode(Graph& g, const Node& n, NodeWriter w) {
  const std::string& name = n.op->name();
  if (name == "aten._softmax") return Softmax(g, n, w, false);
  if (name == "aten._log_softmax") return Softmax(g, n, w, true);
  if (name == "aten._softmax_backward_data") return SoftmaxBackward(g, n, w, false);
  if (name == "aten._log_softmax_backward_data") return SoftmaxBackward(g, n, w, true);
  if (name.find("_norm") != std::string::npos) return DecomposeNorm(g, n, w);
  if (name == "aten.nll_loss_forward") return NllLoss(g, n, w);
  if (name == "aten.nll_loss_backward") return NllLossBackward(g, n, w);
  if (name == "aten.mean.dim") return Mean(g, n, w, false);
  if (name == "aten.mean") return Mean(g, n, w, true);
  if (name == "aten.sum") return FullSum(g, n, w);
  if (name == "aten.var.correction") return Variance(g, n, w, false);
  if (name == "aten.var_mean.correction") return Variance(g, n, w, true);
  if (name.starts_with("aten._foreach_") && !n.op->mutates()) return Foreach(g, n, w);
  return false;
}

}  // namespace

absl::StatusOr<bool> Decompose(Graph& graph) {
  std::vector<Node> old = std::move(graph.nodes), nodes;
  graph.nodes.clear();
  bool changed = false;
  for (const Node& n : old) {
    const std::size_t before = nodes.size();
    if (DecomposeNode(graph, n, NodeWriter(&graph, &nodes, n))) {
      changed = true;
      continue;
    }
    nodes.resize(before);
    nodes.push_back(n);
  }
  graph.nodes = std::move(nodes);
  return changed;
}

}  // namespace framefuse::fusion
