// Pointwise operators that are a formula of others: activations and their backwards, arithmetic of floating-point
// numbers. What is NaN, infinite or on a boundary is as eager's kernels have it. See decompose_rules.h.
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "backends/fusion/formula.h"
#include "backends/fusion/pointwise.h"
#include "common/coverage.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

const bool declared = DeclareKinds(
    "decomposition",
    {"aten.elu", "aten.celu", "aten.elu_backward", "aten.mish", "aten.mish_backward", "aten.hardsigmoid_backward",
     "aten.hardtanh_backward", "aten.threshold", "aten.hardshrink", "aten.hardshrink_backward",
     "aten.softshrink_backward", "aten.logaddexp", "aten.xlogy.Tensor", "aten.fmax", "aten.fmin",
     "aten.log_sigmoid_forward", "aten.log_sigmoid_backward", "aten.glu", "aten.glu_backward"});

using F = Formula;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ValueId Softplus(F& f, ValueId x) { return f.Unary("log1p", f.Unary("exp", x)); }
ValueId IsNan(F& f, ValueId x) { return f.CompareWith("ne", x, x); }

// input, alpha, scale, input_scale from argument `a` on.
ValueId Elu(F& f, double alpha, double scale, double input_scale) {
  const ValueId x = f.Tensor(0);
  const ValueId below = f.Times(f.Unary("expm1", f.Times(x, input_scale)), alpha * scale);
  return f.Where(f.Compare("le", x, 0), below, f.Times(x, scale));
}
ValueId Elu(F& f) { return Elu(f, f.Number(1), f.Number(2), f.Number(3)); }
ValueId Celu(F& f) { return Elu(f, f.Number(1), 1, 1 / f.Number(1)); }

// grad, alpha, scale, input_scale, is_result, self_or_result
ValueId EluBackward(F& f) {
  const ValueId grad = f.Tensor(0), x = f.Tensor(5);
  const double alpha = f.Number(1) * f.Number(2), input_scale = f.Number(3);
  const ValueId slope = f.Number(4) != 0 ? f.Plus(x, alpha) : f.Times(f.Unary("exp", f.Times(x, input_scale)), alpha);
  const ValueId below = f.Mul(f.Times(grad, input_scale), slope);
  return f.Where(f.Compare("le", x, 0), below, f.Times(grad, f.Number(2)));
}

ValueId Mish(F& f) {
  const ValueId x = f.Tensor(0);
  return f.Mul(x, f.Unary("tanh", Softplus(f, x)));
}

ValueId MishBackward(F& f) {
  const ValueId grad = f.Tensor(0), x = f.Tensor(1), t = f.Unary("tanh", Softplus(f, x));
  const ValueId slope = f.Plus(f.Unary("neg", f.Mul(t, t)), 1);
  return f.Mul(grad, f.Add(t, f.Mul(f.Mul(x, f.Unary("sigmoid", x)), slope)));
}

ValueId HardsigmoidBackward(F& f) {
  const ValueId x = f.Tensor(1);
  const ValueId inside = f.Logical("logical_and", f.Compare("gt", x, -3), f.Compare("lt", x, 3));
  return f.Where(inside, f.Times(f.Tensor(0), 1.0 / 6), 0.0);
}

ValueId HardtanhBackward(F& f) {
  const ValueId x = f.Tensor(1);
  const ValueId outside = f.Logical("logical_or", f.Compare("le", x, f.Number(2)), f.Compare("ge", x, f.Number(3)));
  return f.Where(outside, 0.0, f.Tensor(0));
}

ValueId Threshold(F& f) {
  const ValueId x = f.Tensor(0);
  // CUDA's kernel has it in the type of x, the CPU's in single precision.
  const double threshold = f.device().is_cuda() ? f.NumberOfResult(1) : f.Number(1);
  return f.Where(f.Compare("le", x, threshold), f.Number(2), x);
}

ValueId WithoutMiddle(F& f, ValueId x, ValueId otherwise, double bound) {
  return f.Where(f.Logical("logical_and", f.Compare("ge", x, -bound), f.Compare("le", x, bound)), 0.0, otherwise);
}
ValueId Hardshrink(F& f) { return WithoutMiddle(f, f.Tensor(0), f.Tensor(0), f.NumberOfResult(1)); }
ValueId ShrinkBackward(F& f) { return WithoutMiddle(f, f.Tensor(1), f.Tensor(0), f.NumberOfResult(2)); }

// 1 / (1 + e^x), with the smaller of two powers; of the saved ones none is needed.
ValueId LogSigmoidBackward(F& f) { return f.Mul(f.Tensor(0), f.Unary("sigmoid", f.Unary("neg", f.Tensor(1)))); }

ValueId LogAddExp(F& f) {
  const ValueId x = f.Tensor(0), y = f.Tensor(1), size = f.Unary("abs", x);
  const ValueId rest = f.Unary("log1p", f.Unary("exp", f.Unary("neg", f.Unary("abs", f.Sub(x, y)))));
  const ValueId larger = f.Where(f.CompareWith("ge", x, y), x, y);
  const ValueId equal = f.Logical("logical_and", f.Compare("eq", size, kInfinity), f.CompareWith("eq", x, y));
  return f.Where(equal, x, f.Add(larger, rest));
}

ValueId Xlogy(F& f) {
  const ValueId x = f.Tensor(0), y = f.Tensor(1);
  const ValueId product = f.Where(f.Compare("eq", x, 0), 0.0, f.Mul(x, f.Unary("log", y)));
  return f.Where(IsNan(f, y), y, product);
}

ValueId Fmax(F& f, std::string_view op) {
  const ValueId x = f.Tensor(0), y = f.Tensor(1);
  const ValueId chosen = f.Where(f.CompareWith(op, x, y), x, y);
  return f.Where(IsNan(f, x), y, f.Where(IsNan(f, y), x, chosen));
}
ValueId FmaxOf(F& f) { return Fmax(f, "ge"); }
ValueId FminOf(F& f) { return Fmax(f, "le"); }

// In the type of the result: eager raises where they do not.
bool NumbersFit(const Graph& g, const Node& n) {
  const std::optional<kernel_ir::DType> type = StorageOf(g.value(n.outputs[0]).dtype);
  return type && std::all_of(n.args.begin(), n.args.end(), [&](const Arg& arg) {
           if (arg.kind == Arg::Kind::kDim) return false;  // formulas are made for a number
           return arg.kind != Arg::Kind::kConstant || !arg.constant.isScalar() ||
                  FitsIn(arg.constant.toScalar(), *type);
         });
}

struct Rule {
  ValueId (*formula)(Formula&);
  std::size_t tensors;  // so many arguments, wherever they are, are tensors
};

const Rule* FindRule(const std::string& name) {
  static const auto* rules = new std::unordered_map<std::string, Rule>{
      {"aten.elu", {Elu, 1}},
      {"aten.celu", {Celu, 1}},
      {"aten.elu_backward", {EluBackward, 2}},
      {"aten.mish", {Mish, 1}},
      {"aten.mish_backward", {MishBackward, 2}},
      {"aten.hardsigmoid_backward", {HardsigmoidBackward, 2}},
      {"aten.hardtanh_backward", {HardtanhBackward, 2}},
      {"aten.threshold", {Threshold, 1}},
      {"aten.hardshrink", {Hardshrink, 1}},
      {"aten.hardshrink_backward", {ShrinkBackward, 2}},
      {"aten.softshrink_backward", {ShrinkBackward, 2}},
      {"aten.logaddexp", {LogAddExp, 2}},
      {"aten.xlogy.Tensor", {Xlogy, 2}},
      {"aten.fmax", {FmaxOf, 2}},
      {"aten.fmin", {FminOf, 2}},
  };
  const auto it = rules->find(name);
  return it == rules->end() ? nullptr : &it->second;
}

// log_sigmoid(x) = min(x, 0) - log(1 + e^-|x|). Eager's CPU kernel saves the power for its backward.
bool LogSigmoid(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value;
  if (!IsRealFloat(g.value(x)) || n.outputs[0] == kNoValue) return false;
  const bool saves = n.outputs[1] != kNoValue && g.value(n.outputs[1]).sizes == g.value(x).sizes;
  if (n.outputs[1] != kNoValue && !saves) return false;
  Formula f(&g, &w, n, x);
  const ValueId wide = f.Tensor(0), power = f.Unary("exp", f.Unary("neg", f.Unary("abs", wide)));
  const ValueId most = f.Where(f.Compare("gt", wide, 0), 0.0, wide);  // NaN stays
  f.Is(n.outputs[0], f.Sub(most, f.Unary("log1p", power)));
  if (saves) f.Is(n.outputs[1], power);
  return true;
}

// Halves of the dimension.
ValueId Half(Graph& g, NodeWriter& w, ValueId x, std::size_t dim, bool second) {
  ir::Value half = g.value(x);
  const std::int64_t size = half.sizes[dim].constant() / 2, begin = second ? size : 0;
  half.sizes[dim] = Dim(size);
  half.offset =
      g.exprs.Make(ir::ExprKind::kAdd, half.offset, g.exprs.Make(ir::ExprKind::kMul, half.strides[dim], Dim(begin)));
  const auto number = [](std::int64_t i) { return Arg::Constant(i); };
  return w.Call(
      "aten.slice.Tensor",
      {Arg::OfValue(x), number(static_cast<std::int64_t>(dim)), number(begin), number(begin + size), number(1)}, half);
}

// self, dim; backward: grad, self, dim
bool Glu(Graph& g, const Node& n, NodeWriter w, bool backward) {
  const ValueId x = n.args[backward ? 1 : 0].value;
  const ir::Value in = g.value(x);
  const Arg& named = n.args[backward ? 2 : 1];
  if (!IsRealFloat(in) || named.kind != Arg::Kind::kConstant || in.sizes.empty()) return false;
  const std::int64_t rank = static_cast<std::int64_t>(in.sizes.size()), d = named.constant.toInt();
  const auto dim = static_cast<std::size_t>(d < 0 ? d + rank : d);
  if (!in.sizes[dim].is_constant()) return false;
  const ValueId first = Half(g, w, x, dim, false), second = Half(g, w, x, dim, true);
  Formula f(&g, &w, n, first);
  const ValueId a = w.To(first, f.type()), b = w.To(second, f.type()), gate = f.Unary("sigmoid", b);
  if (!backward) {
    f.Is(n.outputs[0], f.Mul(a, gate));
    return true;
  }
  const ValueId grad = f.Tensor(0), da = f.Mul(grad, gate);
  // 1 - sigmoid(b) without what that loses where b is large.
  const ValueId db = f.Mul(f.Mul(da, a), f.Unary("sigmoid", f.Unary("neg", b)));
  const std::vector<ValueId> parts = {w.To(da, in.dtype), w.To(db, in.dtype)};
  if (!ir::IsContiguous(g.exprs, g.value(n.outputs[0]))) return false;
  w.Into(n.outputs[0]).Call("aten.cat", {Arg::OfValues(parts), named}, ir::Value(g.value(n.outputs[0])));
  return true;
}

// Numbers are constants, tensors floating point.
bool Fits(const Graph& g, const Node& n, std::size_t tensors) {
  // Eager's sixth is f32's for doubles, too.
  if (n.op->name() == "aten.hardsigmoid_backward" && n.args[0].kind == Arg::Kind::kValue &&
      g.value(n.args[0].value).dtype == c10::ScalarType::Double) {
    return false;
  }
  if (n.outputs.size() != 1 || n.outputs[0] == kNoValue || !IsRealFloat(g.value(n.outputs[0]))) return false;
  for (const Arg& arg : n.args) {
    if (arg.kind == Arg::Kind::kConstant) continue;
    if (arg.kind != Arg::Kind::kValue || !IsRealFloat(g.value(arg.value))) return false;
    --tensors;
  }
  return tensors == 0;
}

}  // namespace

bool DecomposePointwise(Graph& g, const Node& n, NodeWriter w) {
  const std::string& name = n.op->name();
  if (name == "aten.log_sigmoid_forward") return LogSigmoid(g, n, w);
  if (name == "aten.glu" || name == "aten.glu_backward") return Glu(g, n, w, name != "aten.glu");
  if (name == "aten.log_sigmoid_backward") {
    if (!IsRealFloat(g.value(n.outputs[0]))) return false;
    Formula f(&g, &w, n, n.outputs[0]);
    f.Is(n.outputs[0], LogSigmoidBackward(f));
    return true;
  }
  const Rule* rule = FindRule(name);
  if (rule == nullptr || !Fits(g, n, rule->tensors) || !NumbersFit(g, n)) return false;
  Formula f(&g, &w, n, n.outputs[0]);
  f.Is(n.outputs[0], rule->formula(f));
  return true;
}

}  // namespace framefuse::fusion
