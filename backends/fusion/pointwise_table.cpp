// One row an operator: what it computes. See pointwise.h.
#include "backends/fusion/pointwise_table.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>

#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

using kernel_ir::kNoValue;
using kernel_ir::Op;
using kernel_ir::Type;
using kernel_ir::ValueId;
using E = PointwiseEmitter;

template <Op op>
ValueId FloatUnary(E& e) {
  return kernel_ir::IsFloat(e.type()) ? e.One(op, e.Arg(0)) : kNoValue;
}

template <Op op>
ValueId Unary(E& e) {
  return e.type() == Type::kPred ? kNoValue : e.One(op, e.Arg(0));
}

template <Op op>
ValueId FloatBinary(E& e) {
  return kernel_ir::IsFloat(e.type()) ? e.Two(op, e.Arg(0), e.Arg(1)) : kNoValue;
}

// The operator refuses them.
bool SubtractsBools(E& e) {
  for (std::size_t a : {0, 1}) {
    if (e.IsTensor(a) && e.StorageOfTensor(a) == kernel_ir::DType::kBool) return true;
  }
  return false;
}

// a + alpha * b
template <Op op>
ValueId AddLike(E& e) {
  if (op == Op::kSub && SubtractsBools(e)) return kNoValue;
  if (e.type() == Type::kPred)
    return op == Op::kAdd && e.Number(2) == 1 ? e.Two(Op::kOr, e.Arg(0), e.Arg(1)) : kNoValue;
  ValueId other = e.Arg(1);
  if (e.Has(2) && e.Number(2) != 1) other = e.Two(Op::kMul, other, e.Arg(2));
  return e.Two(op, e.Arg(0), other);
}

ValueId ReverseSub(E& e) {
  if (e.type() == Type::kPred || SubtractsBools(e)) return kNoValue;
  ValueId self = e.Arg(0);
  if (e.Has(2) && e.Number(2) != 1) self = e.Two(Op::kMul, self, e.Arg(2));
  return e.Two(Op::kSub, e.Arg(1), self);
}

ValueId Mul(E& e) { return e.Two(e.type() == Type::kPred ? Op::kAnd : Op::kMul, e.Arg(0), e.Arg(1)); }

template <Op op>
ValueId MinMax(E& e) {
  if (e.type() == Type::kPred) return e.Two(op == Op::kMax ? Op::kOr : Op::kAnd, e.Arg(0), e.Arg(1));
  return e.Two(op, e.Arg(0), e.Arg(1));
}

// A number that a small integer type does not hold wraps in eager, as the bound of a clamp too.
bool Holds(E& e, std::size_t a) {
  const std::optional<double> number = e.Number(a);
  if (!number || !kernel_ir::IsInt(e.type()) || e.storage() == kernel_ir::DType::kI64) return true;
  const bool is_signed = e.storage() != kernel_ir::DType::kU8;
  const double most = std::ldexp(1.0, 8 * ElementSize(e.storage()) - (is_signed ? 1 : 0));
  return *number >= (is_signed ? -most : 0) && *number < most;
}

ValueId Clamp(E& e) {
  if (e.type() == Type::kPred || !Holds(e, 1) || !Holds(e, 2)) return kNoValue;
  ValueId v = e.Arg(0);
  if (e.Has(1)) v = e.Two(Op::kMax, v, e.Arg(1));
  if (e.Has(2)) v = e.Two(Op::kMin, v, e.Arg(2));
  return v;
}

ValueId ClampMax(E& e) {
  return e.type() == Type::kPred || !Holds(e, 1) ? kNoValue : e.Two(Op::kMin, e.Arg(0), e.Arg(1));
}

// As eager compares: what is not of the type that both become is rounded to it, a Python number too.
ValueId Compared(E& e, std::size_t a, kernel_ir::DType type) {
  const bool half = type == kernel_ir::DType::kBF16 || type == kernel_ir::DType::kF16;
  if (!half) return e.Arg(a, type == kernel_ir::DType::kBool ? Type::kI32 : ComputeType(type));
  if (e.IsTensor(a) && e.StorageOfTensor(a) == type && !e.UnroundedHalf(a)) return e.Raw(a);
  if (const std::optional<double> number = e.Number(a)) {
    const auto single = static_cast<float>(*number);
    return e.b().Const(Type::kF32,
                       type == kernel_ir::DType::kBF16 ? float{c10::BFloat16(single)} : float{c10::Half(single)});
  }
  return e.b().Emit(Op::kWrap, Type::kF32, {e.Arg(a, Type::kF32)}, -1, static_cast<std::uint64_t>(type));
}

// Rounding of integers changes nothing; bools are refused by the operator. A half next to where the function jumps is
// on the side that its type puts it on.
template <Op op>
ValueId Rounding(E& e) {
  if (e.type() == Type::kPred) return kNoValue;
  return kernel_ir::IsFloat(e.type()) ? e.One(op, Compared(e, 0, e.storage())) : e.Arg(0);
}

ValueId Frac(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  const ValueId x = Compared(e, 0, e.storage());
  return e.Two(Op::kSub, x, e.One(Op::kTrunc, x));
}

template <Op op, bool swapped>
ValueId Comparison(E& e) {
  const kernel_ir::DType type = e.Promoted(0, 1);
  const ValueId x = Compared(e, 0, type), y = Compared(e, 1, type);
  return e.b().Compare(op, swapped ? y : x, swapped ? x : y);
}

template <Op op>
ValueId Logical(E& e) {
  return e.Two(op, e.Arg(0, Type::kPred), e.Arg(1, Type::kPred));
}

template <Op op>
ValueId Bitwise(E& e) {
  return kernel_ir::IsFloat(e.type()) ? kNoValue : e.Two(op, e.Arg(0), e.Arg(1));
}

ValueId Pow(E& e) {
  const std::optional<double> n = e.Number(1);
  if (n && *n == 2) return e.type() == Type::kPred ? kNoValue : e.Two(Op::kMul, e.Arg(0), e.Arg(0));
  if (n && *n == 3 && e.type() != Type::kPred) return e.Two(Op::kMul, e.Two(Op::kMul, e.Arg(0), e.Arg(0)), e.Arg(0));
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  if (n && *n == 0.5) return e.One(Op::kSqrt, e.Arg(0));
  if (n && *n == -0.5) return e.One(Op::kRsqrt, e.Arg(0));
  if (n && *n == -1) return e.One(Op::kReciprocal, e.Arg(0));
  if (n && *n == 1) return e.Arg(0);
  // An odd exponent that f32 has not keeps the sign in some of eager's kernels.
  if (n && std::isfinite(*n) && static_cast<float>(*n) != *n && std::trunc(*n) == *n) return kNoValue;
  return e.Two(Op::kPow, e.Arg(0), e.Arg(1));
}

// max(x, 0); NaN stays.
ValueId Relu(E& e) { return e.type() == Type::kPred ? kNoValue : e.Two(Op::kMax, e.Arg(0), e.Const(0)); }

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

// u with gelu(x) = x * sigmoid(2u), the tanh form.
ValueId GeluInner(E& e, ValueId x) {
  const ValueId cube = e.Two(Op::kMul, e.Two(Op::kMul, x, x), x);
  return e.Two(Op::kMul, e.Const(kSqrtTwoOverPi), e.Two(Op::kAdd, x, e.Two(Op::kMul, e.Const(kCubic), cube)));
}

// Eager raises for another word.
bool IsKindOfGelu(std::string_view word) { return word.empty() || word == "none" || word == "tanh"; }

ValueId Gelu(E& e) {
  if (!kernel_ir::IsFloat(e.type()) || !IsKindOfGelu(e.Text(1))) return kNoValue;
  const ValueId x = e.Arg(0);
  if (e.Text(1) == "tanh") {
    const ValueId u = GeluInner(e, x);
    // At -inf the product would be inf * 0, as it is in eager.
    return e.Two(Op::kMul, x, e.One(Op::kSigmoid, e.Two(Op::kAdd, u, u)));
  }
  const ValueId erf = e.One(Op::kErf, e.Two(Op::kMul, x, e.Const(kSqrtHalf)));
  return e.Two(Op::kMul, e.Two(Op::kMul, x, e.Const(0.5)), e.Two(Op::kAdd, erf, e.Const(1)));
}

ValueId GeluBackward(E& e) {
  if (!kernel_ir::IsFloat(e.type()) || !IsKindOfGelu(e.Text(2))) return kNoValue;
  const ValueId grad = e.Arg(0), x = e.Arg(1);
  if (e.Text(2) == "tanh") {
    // d(x s(2u)) = s + 2 x s (1 - s) u', s the sigmoid; with t = e^(-2u) it is 1 / (1 + t), and 1 - s is t s, which
    // is exact where s is near 1. The limit keeps t finite.
    const ValueId u = GeluInner(e, x);
    const double limit = e.type() == Type::kF64 ? 700 : 88;
    const ValueId exponent = e.Two(Op::kMinRaw, e.Const(limit), e.One(Op::kNeg, e.Two(Op::kAdd, u, u)));
    const ValueId t = e.One(Op::kExp, exponent);
    const ValueId s = e.One(Op::kReciprocal, e.Two(Op::kAdd, e.Const(1), t));
    const ValueId slope =
        e.Two(Op::kMul, e.Const(2 * kSqrtTwoOverPi),
              e.Two(Op::kAdd, e.Const(1), e.Two(Op::kMul, e.Const(3 * kCubic), e.Two(Op::kMul, x, x))));
    const ValueId spread = e.Two(Op::kMul, t, e.Two(Op::kMul, s, s));
    return e.Two(Op::kMul, grad, e.Two(Op::kAdd, s, e.Two(Op::kMul, e.Two(Op::kMul, x, spread), slope)));
  }
  const ValueId cdf = e.Two(Op::kMul, e.Const(0.5),
                            e.Two(Op::kAdd, e.Const(1), e.One(Op::kErf, e.Two(Op::kMul, x, e.Const(kSqrtHalf)))));
  const ValueId square = e.Two(Op::kMul, e.Two(Op::kMul, x, x), e.Const(-0.5));
  const ValueId pdf = e.Two(Op::kMul, e.One(Op::kExp, square), e.Const(0.39894228040143267794));
  return e.Two(Op::kMul, grad, e.Two(Op::kAdd, cdf, e.Two(Op::kMul, x, pdf)));
}

ValueId Silu(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  return e.Two(Op::kMul, e.Arg(0), e.One(Op::kSigmoid, e.Arg(0)));
}

ValueId SiluBackward(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  const ValueId s = e.One(Op::kSigmoid, e.Arg(1));
  const ValueId inner = e.Two(Op::kMul, e.Arg(1), e.Two(Op::kSub, e.Const(1), s));
  return e.Two(Op::kMul, e.Two(Op::kMul, e.Arg(0), s), e.Two(Op::kAdd, e.Const(1), inner));
}

ValueId TanhBackward(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  // 1 - y^2 without the square's rounding, which counts where y is near 1.
  const ValueId y = e.Arg(1), factor = e.Two(Op::kMul, e.Two(Op::kSub, e.Const(1), y), e.Two(Op::kAdd, e.Const(1), y));
  return e.Two(Op::kMul, e.Arg(0), factor);
}

ValueId SigmoidBackward(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  return e.Two(Op::kMul, e.Arg(0), e.Two(Op::kMul, e.Two(Op::kSub, e.Const(1), e.Arg(1)), e.Arg(1)));
}

// x <= threshold ? 0 : grad. CUDA's kernel has the threshold in the type of x, the CPU's in single precision.
ValueId ThresholdBackward(E& e) {
  if (e.type() == Type::kPred) return kNoValue;
  const ValueId threshold = e.device().is_cuda() ? Compared(e, 2, e.storage()) : e.Arg(2);
  return e.b().Select(e.b().Compare(Op::kLe, Compared(e, 1, e.storage()), threshold), e.Const(0), e.Arg(0));
}

ValueId LeakyRelu(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  return e.b().Select(e.b().Compare(Op::kLt, e.Const(0), e.Arg(0)), e.Arg(0), e.Two(Op::kMul, e.Arg(0), e.Arg(1)));
}

ValueId Hardtanh(E& e) {
  if (e.type() == Type::kPred) return kNoValue;
  return e.Two(Op::kMin, e.Two(Op::kMax, e.Arg(0), e.Arg(1)), e.Arg(2));
}

// min(max(x + 3, 0), 6)
ValueId ReluSix(E& e) {
  return e.Two(Op::kMin, e.Two(Op::kMax, e.Two(Op::kAdd, e.Arg(0), e.Const(3)), e.Const(0)), e.Const(6));
}

// As eager: CUDA's kernels multiply by a sixth in single precision, also doubles.
ValueId Sixth(E& e, ValueId v) {
  if (e.device().is_cuda()) return e.Two(Op::kMul, v, e.Const(static_cast<double>(1.0f / 6.0f)));
  return e.Two(Op::kDiv, v, e.Const(6));
}

ValueId Hardsigmoid(E& e) { return kernel_ir::IsFloat(e.type()) ? Sixth(e, ReluSix(e)) : kNoValue; }

ValueId Hardswish(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  return Sixth(e, e.Two(Op::kMul, e.Arg(0), ReluSix(e)));
}

ValueId Where(E& e) { return e.b().Select(e.Arg(0, Type::kPred), e.Arg(1), e.Arg(2)); }
ValueId MaskedFill(E& e) { return e.b().Select(e.Arg(1, Type::kPred), e.Arg(2), e.Arg(0)); }

ValueId Copy(E& e) { return e.Arg(0); }
ValueId LogicalNot(E& e) { return e.One(Op::kNot, e.Arg(0, Type::kPred)); }
ValueId BitwiseNot(E& e) { return kernel_ir::IsFloat(e.type()) ? kNoValue : e.One(Op::kNot, e.Arg(0)); }

ValueId IsNan(E& e) {
  const ValueId x = e.Raw(0);
  return e.b().Compare(Op::kNe, x, x);
}

// self + value * a * b
ValueId Addcmul(E& e) {
  if (e.type() == Type::kPred) return kNoValue;
  return e.Two(Op::kAdd, e.Arg(0), e.Two(Op::kMul, e.Two(Op::kMul, e.Arg(3), e.Arg(1)), e.Arg(2)));
}

ValueId Addcdiv(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  return e.Two(Op::kAdd, e.Arg(0), e.Two(Op::kDiv, e.Two(Op::kMul, e.Arg(3), e.Arg(1)), e.Arg(2)));
}

// From the nearer end, as eager: |w| < 0.5 ? a + w (b - a) : b - (b - a) (1 - w)
ValueId Lerp(E& e) {
  if (!kernel_ir::IsFloat(e.type())) return kNoValue;
  const ValueId a = e.Arg(0), b = e.Arg(1), w = e.Arg(2), d = e.Two(Op::kSub, b, a);
  const ValueId low = e.Two(Op::kAdd, a, e.Two(Op::kMul, w, d));
  const ValueId high = e.Two(Op::kSub, b, e.Two(Op::kMul, d, e.Two(Op::kSub, e.Const(1), w)));
  if (const std::optional<double> n = e.Number(2)) return std::fabs(*n) < 0.5 ? low : high;
  return e.b().Select(e.b().Compare(Op::kLt, e.One(Op::kAbs, w), e.Const(0.5)), low, high);
}

using enum ir::OpName;

constexpr ir::ByOp<PointwiseRow> kRows{
    {kAddTensor, AddLike<Op::kAdd>},
    {kAddScalar, AddLike<Op::kAdd>},
    {kSubTensor, AddLike<Op::kSub>},
    {kSubScalar, AddLike<Op::kSub>},
    {kRsubTensor, ReverseSub},
    {kRsubScalar, ReverseSub},
    {kMulTensor, Mul},
    {kMulScalar, Mul},
    {kDivTensor, FloatBinary<Op::kDiv>},
    {kDivScalar, FloatBinary<Op::kDiv>},
    {kNeg, Unary<Op::kNeg>},
    {kAbs, Unary<Op::kAbs>},
    {kReciprocal, FloatUnary<Op::kReciprocal>},
    {kSqrt, FloatUnary<Op::kSqrt>},
    {kRsqrt, FloatUnary<Op::kRsqrt>},
    {kExp, FloatUnary<Op::kExp>},
    {kExpm1, FloatUnary<Op::kExpm1>},
    {kExp2, FloatUnary<Op::kExp2>},
    {kLog, FloatUnary<Op::kLog>},
    {kLog1p, FloatUnary<Op::kLog1p>},
    {kLog2, FloatUnary<Op::kLog2>},
    {kLog10, FloatUnary<Op::kLog10>},
    {kTanh, FloatUnary<Op::kTanh>},
    {kErf, FloatUnary<Op::kErf>},
    {kErfc, FloatUnary<Op::kErfc>},
    {kSigmoid, FloatUnary<Op::kSigmoid>},
    {kSin, FloatUnary<Op::kSin>},
    {kCos, FloatUnary<Op::kCos>},
    {kTan, FloatUnary<Op::kTan>},
    {kAsin, FloatUnary<Op::kAsin>},
    {kAcos, FloatUnary<Op::kAcos>},
    {kAtan, FloatUnary<Op::kAtan>},
    {kSinh, FloatUnary<Op::kSinh>},
    {kCosh, FloatUnary<Op::kCosh>},
    {kFloor, Rounding<Op::kFloor>},
    {kCeil, Rounding<Op::kCeil>},
    {kTrunc, Rounding<Op::kTrunc>},
    {kRound, Rounding<Op::kRound>},
    {kFrac, Frac},
    {kAtan2, FloatBinary<Op::kAtan2>},
    {kPowTensorScalar, Pow},
    {kPowTensorTensor, Pow},
    {kMaximum, MinMax<Op::kMax>},
    {kMinimum, MinMax<Op::kMin>},
    {kClamp, Clamp},
    {kClampTensor, Clamp},
    {kClampMin, Clamp},
    {kClampMax, ClampMax},
    {kRelu, Relu},
    {kGelu, Gelu},
    {kGeluBackward, GeluBackward},
    {kSilu, Silu},
    {kSiluBackward, SiluBackward},
    {kTanhBackward, TanhBackward},
    {kSigmoidBackward, SigmoidBackward},
    {kThresholdBackward, ThresholdBackward},
    {kLeakyRelu, LeakyRelu},
    {kHardtanh, Hardtanh},
    {kHardsigmoid, Hardsigmoid},
    {kHardswish, Hardswish},
    {kWhereSelf, Where},
    {kMaskedFillScalar, MaskedFill},
    {kMaskedFillTensor, MaskedFill},
    {k_ToCopy, Copy},
    {kClone, Copy},
    {kEqTensor, Comparison<Op::kEq, false>},
    {kEqScalar, Comparison<Op::kEq, false>},
    {kNeTensor, Comparison<Op::kNe, false>},
    {kNeScalar, Comparison<Op::kNe, false>},
    {kLtTensor, Comparison<Op::kLt, false>},
    {kLtScalar, Comparison<Op::kLt, false>},
    {kLeTensor, Comparison<Op::kLe, false>},
    {kLeScalar, Comparison<Op::kLe, false>},
    {kGtTensor, Comparison<Op::kLt, true>},
    {kGtScalar, Comparison<Op::kLt, true>},
    {kGeTensor, Comparison<Op::kLe, true>},
    {kGeScalar, Comparison<Op::kLe, true>},
    {kLogicalAnd, Logical<Op::kAnd>},
    {kLogicalOr, Logical<Op::kOr>},
    {kLogicalXor, Logical<Op::kXor>},
    {kLogicalNot, LogicalNot},
    {kBitwiseAndTensor, Bitwise<Op::kAnd>},
    {kBitwiseAndScalar, Bitwise<Op::kAnd>},
    {kBitwiseOrTensor, Bitwise<Op::kOr>},
    {kBitwiseOrScalar, Bitwise<Op::kOr>},
    {kBitwiseXorTensor, Bitwise<Op::kXor>},
    {kBitwiseXorScalar, Bitwise<Op::kXor>},
    {kBitwiseNot, BitwiseNot},
    {kIsnan, IsNan},
    {kAddcmul, Addcmul},
    {kAddcdiv, Addcdiv},
    {kLerpScalar, Lerp},
    {kLerpTensor, Lerp},
};

}  // namespace

PointwiseRow FindPointwiseRow(ir::OpId op) { return kRows[op]; }

}  // namespace framefuse::fusion
