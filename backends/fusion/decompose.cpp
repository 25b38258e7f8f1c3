// See decompose.h. Owner: backends/fusion.
#include "backends/fusion/decompose.h"

#include <ATen/core/ivalue.h>

#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

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
using Dims = std::vector<std::int64_t>;

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

Dims LeadingDims(const ir::Value& v, std::size_t trailing) {
  Dims dims(v.sizes.size() - trailing);
  std::iota(dims.begin(), dims.end(), std::int64_t{0});
  return dims;
}

// Size of an int[] argument, symbolic or not.
std::size_t ListSize(const Arg& arg) {
  return arg.kind == Arg::Kind::kDimList ? arg.dims.size() : arg.constant.toIntVector().size();
}

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

// (x - mean) and sum of its squares over dims / n
struct Moments {
  ValueId mean, centred, variance;
};
Moments MomentsOf(NodeWriter& w, ValueId x, const Dims& dims, std::optional<Dim> divisor = std::nullopt) {
  const Dim n = w.Product(dims, x);
  Moments m;
  m.mean = w.WithDim("div", w.Reduce("sum", x, dims, true), n);
  m.centred = w.Binary("sub", x, m.mean);
  const ValueId squares = w.Reduce("sum", w.Binary("mul", m.centred, m.centred), dims, true);
  m.variance = w.WithDim("div", squares, divisor.value_or(n));
  return m;
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
  if (!IsRealFloat(g.value(x)) || !IsRealFloat(g.value(out))) return false;
  const Dims dims = full ? DimsOf(g, x, Arg::None()) : DimsOf(g, x, n.args[1]);
  if (dims.empty() || w.Product(dims, x) == Dim(0)) return false;
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

std::optional<Dims> ConstantSizes(const ir::Value& v) {
  Dims sizes;
  for (const Dim& d : v.sizes) {
    if (!d.is_constant()) return std::nullopt;
    sizes.push_back(d.value);
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

bool DecomposeNode(Graph& g, const Node& n, NodeWriter w) {
  const std::string& name = n.op->name();
  if (name == "aten._softmax") return Softmax(g, n, w, false);
  if (name == "aten._log_softmax") return Softmax(g, n, w, true);
  if (name == "aten._softmax_backward_data") return SoftmaxBackward(g, n, w, false);
  if (name == "aten._log_softmax_backward_data") return SoftmaxBackward(g, n, w, true);
  if (name == "aten.native_layer_norm") return LayerNorm(g, n, w);
  if (name == "aten.native_layer_norm_backward") return LayerNormBackward(g, n, w);
  if (name == "aten.native_group_norm") return GroupNorm(g, n, w);
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
