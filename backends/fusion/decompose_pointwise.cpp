// Pointwise operators that are a formula of others: activations and their backwards, arithmetic of floating-point
// numbers. What is NaN, infinite or on a boundary is as eager's kernels have it. See decompose_rules.h.
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "backends/fusion/formula.h"
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

using F = Formula;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ValueId Softplus(F& f, ValueId x) { return f.Unary(OpName::kLog1p, f.Unary(OpName::kExp, x)); }
ValueId IsNan(F& f, ValueId x) { return f.CompareWith(OpName::kNeTensor, x, x); }

// input, alpha, scale, input_scale from argument `a` on.
ValueId Elu(F& f, double alpha, double scale, double input_scale) {
  const ValueId x = f.Tensor(0);
  const ValueId below = f.Times(f.Unary(OpName::kExpm1, f.Times(x, input_scale)), alpha * scale);
  return f.Where(f.Compare(OpName::kLeScalar, x, 0), below, f.Times(x, scale));
}
ValueId Elu(F& f) { return Elu(f, f.Number(1), f.Number(2), f.Number(3)); }
ValueId Celu(F& f) { return Elu(f, f.Number(1), 1, 1 / f.Number(1)); }

// grad, alpha, scale, input_scale, is_result, self_or_result
ValueId EluBackward(F& f) {
  const ValueId grad = f.Tensor(0), x = f.Tensor(5);
  const double alpha = f.Number(1) * f.Number(2), input_scale = f.Number(3);
  const ValueId slope =
      f.Number(4) != 0 ? f.Plus(x, alpha) : f.Times(f.Unary(OpName::kExp, f.Times(x, input_scale)), alpha);
  const ValueId below = f.Mul(f.Times(grad, input_scale), slope);
  return f.Where(f.Compare(OpName::kLeScalar, x, 0), below, f.Times(grad, f.Number(2)));
}

ValueId Mish(F& f) {
  const ValueId x = f.Tensor(0);
  return f.Mul(x, f.Unary(OpName::kTanh, Softplus(f, x)));
}

ValueId MishBackward(F& f) {
  const ValueId grad = f.Tensor(0), x = f.Tensor(1), t = f.Unary(OpName::kTanh, Softplus(f, x));
  const ValueId slope = f.Plus(f.Unary(OpName::kNeg, f.Mul(t, t)), 1);
  return f.Mul(grad, f.Add(t, f.Mul(f.Mul(x, f.Unary(OpName::kSigmoid, x)), slope)));
}

ValueId HardsigmoidBackward(F& f) {
  const ValueId x = f.Tensor(1);
  const ValueId inside =
      f.Logical(OpName::kLogicalAnd, f.Compare(OpName::kGtScalar, x, -3), f.Compare(OpName::kLtScalar, x, 3));
  return f.Where(inside, f.Times(f.Tensor(0), 1.0 / 6), 0.0);
}

ValueId HardtanhBackward(F& f) {
  const ValueId x = f.Tensor(1);
  const ValueId outside = f.Logical(OpName::kLogicalOr, f.Compare(OpName::kLeScalar, x, f.Number(2)),
                                    f.Compare(OpName::kGeScalar, x, f.Number(3)));
  return f.Where(outside, 0.0, f.Tensor(0));
}

ValueId Threshold(F& f) {
  const ValueId x = f.Tensor(0);
  // CUDA's kernel has it in the type of x, the CPU's in single precision.
  const double threshold = f.device().is_cuda() ? f.NumberOfResult(1) : f.Number(1);
  return f.Where(f.Compare(OpName::kLeScalar, x, threshold), f.Number(2), x);
}

ValueId WithoutMiddle(F& f, ValueId x, ValueId otherwise, double bound) {
  return f.Where(
      f.Logical(OpName::kLogicalAnd, f.Compare(OpName::kGeScalar, x, -bound), f.Compare(OpName::kLeScalar, x, bound)),
      0.0, otherwise);
}
ValueId Hardshrink(F& f) { return WithoutMiddle(f, f.Tensor(0), f.Tensor(0), f.NumberOfResult(1)); }
ValueId ShrinkBackward(F& f) { return WithoutMiddle(f, f.Tensor(1), f.Tensor(0), f.NumberOfResult(2)); }

// 1 / (1 + e^x), with the smaller of two powers; of the saved ones none is needed.
bool LogSigmoidBackward(Graph& g, const Node& n, NodeWriter w) {
  if (!IsRealFloat(g.value(n.outputs[0]))) return false;
  F f(&g, &w, n, n.outputs[0]);
  f.Is(n.outputs[0], f.Mul(f.Tensor(0), f.Unary(OpName::kSigmoid, f.Unary(OpName::kNeg, f.Tensor(1)))));
  return true;
}

ValueId LogAddExp(F& f) {
  const ValueId x = f.Tensor(0), y = f.Tensor(1), size = f.Unary(OpName::kAbs, x);
  const ValueId rest =
      f.Unary(OpName::kLog1p, f.Unary(OpName::kExp, f.Unary(OpName::kNeg, f.Unary(OpName::kAbs, f.Sub(x, y)))));
  const ValueId larger = f.Where(f.CompareWith(OpName::kGeTensor, x, y), x, y);
  const ValueId equal = f.Logical(OpName::kLogicalAnd, f.Compare(OpName::kEqScalar, size, kInfinity),
                                  f.CompareWith(OpName::kEqTensor, x, y));
  return f.Where(equal, x, f.Add(larger, rest));
}

ValueId Xlogy(F& f) {
  const ValueId x = f.Tensor(0), y = f.Tensor(1);
  const ValueId product = f.Where(f.Compare(OpName::kEqScalar, x, 0), 0.0, f.Mul(x, f.Unary(OpName::kLog, y)));
  return f.Where(IsNan(f, y), y, product);
}

ValueId Fmax(F& f, OpName op) {
  const ValueId x = f.Tensor(0), y = f.Tensor(1);
  const ValueId chosen = f.Where(f.CompareWith(op, x, y), x, y);
  return f.Where(IsNan(f, x), y, f.Where(IsNan(f, y), x, chosen));
}
ValueId FmaxOf(F& f) { return Fmax(f, OpName::kGeTensor); }
ValueId FminOf(F& f) { return Fmax(f, OpName::kLeTensor); }

// In the type of the result: eager raises where they do not.
bool NumbersFit(const Graph& g, const Node& n) {
  const std::optional<kernel_ir::DType> type = StorageOf(g.value(n.outputs[0]).dtype);
  return type && std::all_of(n.args.begin(), n.args.end(), [&](const Arg& arg) {
           if (arg.kind == Arg::Kind::kDim) return false;  // formulas are made for a number
           return arg.kind != Arg::Kind::kConstant || !arg.constant.isScalar() ||
                  FitsIn(arg.constant.toScalar(), *type);
         });
}

// log_sigmoid(x) = min(x, 0) - log(1 + e^-|x|). Eager's CPU kernel saves the power for its backward.
bool LogSigmoid(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[0].value;
  if (!IsRealFloat(g.value(x)) || n.outputs[0] == kNoValue) return false;
  const bool saves = n.outputs[1] != kNoValue && g.value(n.outputs[1]).sizes == g.value(x).sizes;
  if (n.outputs[1] != kNoValue && !saves) return false;
  Formula f(&g, &w, n, x);
  const ValueId wide = f.Tensor(0), power = f.Unary(OpName::kExp, f.Unary(OpName::kNeg, f.Unary(OpName::kAbs, wide)));
  const ValueId most = f.Where(f.Compare(OpName::kGtScalar, wide, 0), 0.0, wide);  // NaN stays
  f.Is(n.outputs[0], f.Sub(most, f.Unary(OpName::kLog1p, power)));
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
      OpName::kSliceTensor,
      {Arg::OfValue(x), number(static_cast<std::int64_t>(dim)), number(begin), number(begin + size), number(1)}, half);
}

// self, dim; backward: grad, self, dim
template <bool backward>
bool Glu(Graph& g, const Node& n, NodeWriter w) {
  const ValueId x = n.args[backward ? 1 : 0].value;
  const ir::Value in = g.value(x);
  const Arg& named = n.args[backward ? 2 : 1];
  if (!IsRealFloat(in) || named.kind != Arg::Kind::kConstant || in.sizes.empty()) return false;
  const std::int64_t rank = static_cast<std::int64_t>(in.sizes.size()), d = named.constant.toInt();
  const auto dim = static_cast<std::size_t>(d < 0 ? d + rank : d);
  if (!in.sizes[dim].is_constant()) return false;
  const ValueId first = Half(g, w, x, dim, false), second = Half(g, w, x, dim, true);
  Formula f(&g, &w, n, first);
  const ValueId a = w.To(first, f.type()), b = w.To(second, f.type()), gate = f.Unary(OpName::kSigmoid, b);
  if (!backward) {
    f.Is(n.outputs[0], f.Mul(a, gate));
    return true;
  }
  const ValueId grad = f.Tensor(0), da = f.Mul(grad, gate);
  // 1 - sigmoid(b) without what that loses where b is large.
  const ValueId db = f.Mul(f.Mul(da, a), f.Unary(OpName::kSigmoid, f.Unary(OpName::kNeg, b)));
  const std::vector<ValueId> parts = {w.To(da, in.dtype), w.To(db, in.dtype)};
  if (!ir::IsContiguous(g.exprs, g.value(n.outputs[0]))) return false;
  w.Into(n.outputs[0]).Call(OpName::kCat, {Arg::OfValues(parts), named}, ir::Value(g.value(n.outputs[0])));
  return true;
}

// Numbers are constants, tensors floating point.
bool Fits(const Graph& g, const Node& n, std::size_t tensors) {
  // Eager's sixth is f32's for doubles, too.
  if (ir::Is(n.op, OpName::kHardsigmoidBackward) && n.args[0].kind == Arg::Kind::kValue &&
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

// So many arguments, wherever they are, are tensors.
template <ValueId (*formula)(F&), std::size_t tensors>
bool ByFormula(Graph& g, const Node& n, NodeWriter w) {
  if (!Fits(g, n, tensors) || !NumbersFit(g, n)) return false;
  F f(&g, &w, n, n.outputs[0]);
  f.Is(n.outputs[0], formula(f));
  return true;
}

}  // namespace

absl::Span<const DecompositionRow> PointwiseRows() {
  static constexpr DecompositionRow kRows[] = {
      {OpName::kElu, ByFormula<Elu, 1>},
      {OpName::kCelu, ByFormula<Celu, 1>},
      {OpName::kEluBackward, ByFormula<EluBackward, 2>},
      {OpName::kMish, ByFormula<Mish, 1>},
      {OpName::kMishBackward, ByFormula<MishBackward, 2>},
      {OpName::kHardsigmoidBackward, ByFormula<HardsigmoidBackward, 2>},
      {OpName::kHardtanhBackward, ByFormula<HardtanhBackward, 2>},
      {OpName::kThreshold, ByFormula<Threshold, 1>},
      {OpName::kHardshrink, ByFormula<Hardshrink, 1>},
      {OpName::kHardshrinkBackward, ByFormula<ShrinkBackward, 2>},
      {OpName::kSoftshrinkBackward, ByFormula<ShrinkBackward, 2>},
      {OpName::kLogaddexp, ByFormula<LogAddExp, 2>},
      {OpName::kXlogyTensor, ByFormula<Xlogy, 2>},
      {OpName::kFmax, ByFormula<FmaxOf, 2>},
      {OpName::kFmin, ByFormula<FminOf, 2>},
      {OpName::kLogSigmoidForward, OfFirst<LogSigmoid>},
      {OpName::kLogSigmoidBackward, OfFirst<LogSigmoidBackward>},
      {OpName::kGlu, OfFirst<Glu<false>>},
      {OpName::kGluBackward, OfFirst<Glu<true>>},
  };
  return kRows;
}

}  // namespace framefuse::fusion
