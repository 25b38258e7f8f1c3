#include "backends/fusion/decompose.h"

#include <ATen/core/ivalue.h>

#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/reduction.h"
#include "backends/graph/dim_algebra.h"
#include "common/config.h"
#include "common/coverage.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

constexpr const char* kFamily = "decomposition";
const bool declared = DeclareKinds(
    kFamily, {"aten._softmax", "aten._log_softmax", "aten._softmax_backward_data", "aten._log_softmax_backward_data",
              "aten.linalg_vector_norm", "aten._foreach", "aten.logsumexp", "aten.mean.dim", "aten.mean", "aten.sum",
              "aten.sum.dim_IntList", "aten.var.correction", "aten.var_mean.correction", "aten.std.correction",
              "aten.std_mean.correction", "aten.max", "aten.min", "aten.any", "aten.all"});

// One kind where one rule serves many operators.
std::string KindOf(const std::string& name) {
  for (std::string_view many : {"aten._foreach", "aten.any", "aten.all"}) {
    if (name.starts_with(many)) return std::string(many);
  }
  return name;
}

// The dimension, if kernels are to do a softmax over it: the last one, which is a row that a kernel walks; on a GPU
// any, in a kernel for each pass over it, since ATen takes many times as long.
std::optional<Dims> DimOfSoftmax(const Graph& g, ValueId v, std::int64_t dim) {
  const ir::Value& value = g.value(v);
  const auto rank = static_cast<std::int64_t>(value.sizes.size());
  if (rank == 0 || !IsRealFloat(value)) return std::nullopt;
  if (dim < 0) dim += rank;
  const Dim& size = value.sizes[static_cast<std::size_t>(dim)];
  const bool on_device = config().rewrite_for_device && (value.device.is_cuda() || config().rewrite_always);
  if (size == Dim(0) || !(dim == rank - 1 || (on_device && size.is_constant() && size != Dim(1)))) return std::nullopt;
  return Dims{dim};
}

bool Softmax(Graph& g, const Node& n, NodeWriter w, bool log) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const std::optional<Dims> over = DimOfSoftmax(g, x, n.args[1].constant.toInt());
  if (!over) return false;
  const Dims& dims = *over;
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
  const std::optional<Dims> over = DimOfSoftmax(g, n.args[1].value, n.args[2].constant.toInt());
  if (!over) return false;
  const Dims& dims = *over;
  const c10::ScalarType type = Wide(g.value(n.args[1].value).dtype);
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

// Of dimensions that are not side by side, as of an image's batch and points; kernels reduce one run of them at a time.
bool SumOfSeveralRuns(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x);
  if (!IsRealFloat(in) || in.dtype != g.value(out).dtype || IsGiven(n.args[3])) return false;
  Dims dims = DimsOf(g, x, n.args[1]);
  std::sort(dims.begin(), dims.end());
  if (dims.empty() || dims.back() - dims.front() < static_cast<std::int64_t>(dims.size())) return false;
  const bool keep = n.args[2].constant.toBool(), wide = Wide(in.dtype) == in.dtype;
  const ValueId from = w.To(x, Wide(in.dtype));
  const ValueId sum = (wide ? w.Into(out) : w).Reduce("sum", from, dims, keep);
  if (!wide) w.Into(out).To(sum, in.dtype);
  return true;
}

// One thread, or block of threads, walks a row where several passes are made over it.
bool HasFewLongRows(const Graph& g, ValueId x, const Dim& length) {
  std::int64_t points = 1;
  for (const Dim& d : g.value(x).sizes) points *= g.exprs.Hint(d);
  const std::int64_t row = g.exprs.Hint(length);
  return row > (1 << 16) && points / row < 16;
}

// self, dim, keepdim. Where the largest element is infinite it is the result, and what was computed is NaN.
bool LogSumExp(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x), result = g.value(out);
  if (!IsRealFloat(in) || in.sizes.empty() || in.dtype != result.dtype || !ir::IsContiguous(g.exprs, result))
    return false;
  const Dims dims = DimsOf(g, x, n.args[1]);
  const Dim length = w.Product(dims, x);
  if (length == Dim(0) || HasFewLongRows(g, x, length)) return false;
  const ValueId wide = w.To(x, Wide(in.dtype)), largest = w.Reduce("amax", wide, dims, true);
  ir::Value flags = g.value(largest);
  flags.dtype = c10::ScalarType::Bool;
  const Arg infinity = Arg::Constant(std::numeric_limits<double>::infinity());
  const ValueId infinite = w.Call("aten.eq.Scalar", {Arg::OfValue(w.Unary("abs", largest)), infinity}, flags);
  const ValueId sum = w.Reduce("sum", w.Unary("exp", w.Binary("sub", wide, largest)), dims, true);
  const ValueId y = w.Call(
      "aten.where.self",
      {Arg::OfValue(infinite), Arg::OfValue(largest), Arg::OfValue(w.Binary("add", w.Unary("log", sum), largest))},
      ir::Value(g.value(largest)));
  InShape(g, w, out, y);
  return true;
}

// self, dim, correction, keepdim; with_mean: var_mean, std_mean; root: std, std_mean
bool Variance(Graph& g, const Node& n, NodeWriter w, bool with_mean, bool root) {
  const ValueId x = n.args[0].value;
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty()) return false;
  const Dims dims = DimsOf(g, x, n.args[1]);
  const Dim count = w.Product(dims, x);
  const bool keep = n.args[3].constant.toBool();
  const double correction = IsGiven(n.args[2]) ? n.args[2].constant.toScalar().toDouble() : 1;
  // Without elements left the divisor is 0 or below: eager's rules for that are its own.
  ir::DimAlgebra algebra(g.exprs);
  if (static_cast<double>(algebra.Lowest(count).value_or(0)) <= correction) return false;
  if (correction != static_cast<double>(static_cast<std::int64_t>(correction))) return false;
  const c10::ScalarType type = g.value(x).dtype;
  for (ValueId out : n.outputs) {
    if (out != kNoValue && !keep && !ir::IsContiguous(g.exprs, g.value(out))) return false;
  }
  const Moments m =
      MomentsOf(w, w.To(x, Wide(type)), dims, algebra.Subtract(count, Dim(static_cast<std::int64_t>(correction))));
  if (n.outputs[0] != kNoValue) InShape(g, w, n.outputs[0], root ? w.Unary("sqrt", m.variance) : m.variance);
  if (with_mean && n.outputs[1] != kNoValue) InShape(g, w, n.outputs[1], m.mean);
  return true;
}

// self, ord, dim, keepdim, dtype. Squares are summed as they are, as eager does.
bool VectorNorm(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x), result = g.value(out);
  if (!IsRealFloat(in) || in.sizes.empty() || in.dtype != result.dtype || IsGiven(n.args[4])) return false;
  if (n.args[1].kind != Arg::Kind::kConstant) return false;
  if (!n.args[3].constant.toBool() && !ir::IsContiguous(g.exprs, result)) return false;
  const double order = n.args[1].constant.toScalar().toDouble();
  const Dims dims = DimsOf(g, x, n.args[2]);
  if ((order != 1 && order != 2) || w.Product(dims, x) == Dim(0)) return false;
  const ValueId wide = w.To(x, Wide(in.dtype));
  const ValueId sum = w.Reduce("sum", order == 1 ? w.Unary("abs", wide) : w.Binary("mul", wide, wide), dims, true);
  InShape(g, w, out, order == 1 ? sum : w.Unary("sqrt", sum));
  return true;
}

bool Largest(Graph& g, const Node& n, NodeWriter w, std::string_view op) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  if (!IsRealFloat(g.value(x)) || g.value(x).sizes.empty()) return false;
  const Dims all = DimsOf(g, x, Arg::None());
  const Dim count = w.Product(all, x);
  if (!count.is_constant() || count == Dim(0)) return false;
  InShape(g, w, out, w.Reduce(op, x, all, true));
  return true;
}

// max and min over a dimension: self, dim, keepdim.
bool ExtremeAndIndex(Graph& g, const Node& n, NodeWriter w, const char* extreme, const char* index) {
  const ValueId x = n.args[0].value;
  const ir::Value& in = g.value(x);
  if (in.sizes.empty()) return false;
  const std::int64_t given = n.args[1].constant.toInt();
  const std::int64_t dim = given < 0 ? given + static_cast<std::int64_t>(in.sizes.size()) : given;
  if (!HasIndexKernel(g, in, static_cast<std::size_t>(dim), static_cast<std::size_t>(dim) + 1)) return false;
  if (const ValueId out = n.outputs[0]; out != kNoValue)
    w.Into(out).Call(extreme, {n.args[0], Arg::Constant(c10::List<std::int64_t>({dim})), n.args[2]}, g.value(out));
  if (const ValueId out = n.outputs[1]; out != kNoValue)
    w.Into(out).Call(index, {n.args[0], Arg::Constant(dim), n.args[2]}, g.value(out));
  return true;
}

// The largest or smallest of 0 and 1; self, dim or dims, keepdim, or self alone.
bool AnyOrAll(Graph& g, const Node& n, NodeWriter w, bool any) {
  const ValueId x = n.args[0].value, out = n.outputs[0];
  const ir::Value in = g.value(x), result = g.value(out);
  const bool alone = n.args.size() == 1;
  if (result.dtype != c10::ScalarType::Bool || !StorageOf(in.dtype) || in.sizes.empty()) return false;
  if (!ir::IsContiguous(g.exprs, result)) return false;
  Dims dims;
  if (!alone && n.args[1].kind == Arg::Kind::kConstant && n.args[1].constant.isInt()) {
    dims = {n.args[1].constant.toInt()};
    if (dims[0] < 0) dims[0] += static_cast<std::int64_t>(in.sizes.size());
  } else {
    dims = DimsOf(g, x, alone ? Arg::None() : n.args[1]);
  }
  const Dim count = w.Product(dims, x);
  if (!count.is_constant() || count == Dim(0)) return false;
  ir::Value flags = in;
  flags.dtype = c10::ScalarType::Bool;
  flags.storage = -1;
  const ValueId set = in.dtype == c10::ScalarType::Bool
                          ? x
                          : w.Call("aten.ne.Scalar", {Arg::OfValue(x), Arg::Constant(std::int64_t{0})}, flags);
  InShape(g, w, out, w.Reduce(any ? "amax" : "amin", w.To(set, c10::ScalarType::Int), dims, true));
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

bool DecomposeNode(Graph& g, const Node& n, NodeWriter w) {
  const std::string& name = n.op->name();
  if (name == "aten._softmax") return Softmax(g, n, w, false);
  if (name == "aten._log_softmax") return Softmax(g, n, w, true);
  if (name == "aten._softmax_backward_data") return SoftmaxBackward(g, n, w, false);
  if (name == "aten._log_softmax_backward_data") return SoftmaxBackward(g, n, w, true);
  if (name == "aten.linalg_vector_norm") return n.outputs[0] != kNoValue && VectorNorm(g, n, w);
  if (name.find("_norm") != std::string::npos) return DecomposeNorm(g, n, w);
  if (name.find("_loss") != std::string::npos || name == "aten.binary_cross_entropy_with_logits") {
    return DecomposeLoss(g, n, w);
  }
  if (name.starts_with("aten._foreach_") && !n.op->mutates()) return Foreach(g, n, w);
  if (name == "aten.max.dim") return ExtremeAndIndex(g, n, w, "aten.amax", "aten.argmax");
  if (name == "aten.min.dim") return ExtremeAndIndex(g, n, w, "aten.amin", "aten.argmin");
  if (n.outputs.empty() || n.outputs[0] == kNoValue) return false;
  if (name == "aten.logsumexp") return LogSumExp(g, n, w);
  if (name == "aten.mean.dim") return Mean(g, n, w, false);
  if (name == "aten.mean") return Mean(g, n, w, true);
  if (name == "aten.sum") return FullSum(g, n, w);
  if (name == "aten.sum.dim_IntList") return SumOfSeveralRuns(g, n, w);
  if (name == "aten.var.correction") return Variance(g, n, w, false, false);
  if (name == "aten.var_mean.correction") return Variance(g, n, w, true, false);
  if (name == "aten.std.correction") return Variance(g, n, w, false, true);
  if (name == "aten.std_mean.correction") return Variance(g, n, w, true, true);
  if (name == "aten.max" || name == "aten.min") return Largest(g, n, w, name == "aten.max" ? "amax" : "amin");
  if (name.starts_with("aten.any") || name.starts_with("aten.all")) return AnyOrAll(g, n, w, name[6] == 'n');
  return DecomposePointwise(g, n, w);
}

}  // namespace

void InShape(Graph& g, NodeWriter& w, ValueId out, ValueId of) {
  const ir::Value like = g.value(out);
  if (like.sizes == g.value(of).sizes) {
    w.Into(out).To(of, like.dtype);
  } else {
    const ValueId typed = w.To(of, like.dtype);
    w.Into(out).Call("aten.view", {Arg::OfValue(typed), Arg::OfDims(like.sizes)}, like);
  }
}

namespace {

template <typename F>
bool DecomposeWhere(Graph& graph, F wanted) {
  std::vector<Node> old = std::move(graph.nodes), nodes;
  graph.nodes.clear();
  bool changed = false;
  for (const Node& n : old) {
    const std::size_t before = nodes.size();
    const bool rewrote = wanted(n) && DecomposeNode(graph, n, NodeWriter(&graph, &nodes, n));
    if (rewrote) {
      if (CountsKinds()) CountKind(kFamily, KindOf(n.op->name()), true);
      changed = true;
      continue;
    }
    nodes.resize(before);
    nodes.push_back(n);
  }
  graph.nodes = std::move(nodes);
  return changed;
}

}  // namespace

absl::StatusOr<bool> Decompose(Graph& graph) {
  return DecomposeWhere(graph, [](const Node&) { return true; });
}

absl::StatusOr<bool> OpenLogSoftmax(Graph& graph) {
  std::set<ValueId> made, opened;  // by a log_softmax of the forward; of these, what the backward reads
  for (const Node& n : graph.nodes) {
    const bool backward = n.phase == ir::Phase::kBackward;
    if (n.op->name() == "aten._log_softmax" && !backward) made.insert(n.outputs[0]);
    if (backward) {
      ir::ForEachUse(n, [&](ValueId v) {
        if (made.contains(v)) opened.insert(v);
      });
    }
  }
  if (opened.empty()) return false;
  return DecomposeWhere(graph, [&](const Node& n) {
    if (n.op->name() == "aten._log_softmax") return opened.contains(n.outputs[0]);
    const bool reads = n.op->name() == "aten._log_softmax_backward_data" || n.op->name() == "aten.nll_loss_backward";
    return reads && opened.contains(n.args[1].value);
  });
}

}  // namespace framefuse::fusion
