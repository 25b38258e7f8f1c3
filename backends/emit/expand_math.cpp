// Polynomial expansions of f32 functions. See expand_math.h.
// min_raw(k, x) and max_raw(k, x) give x when x is NaN: clamps are written so that NaN passes. With e^x = s + s*q, s a
// power of two, (s - 1) + s*q is e^x - 1, exact to the last bits also where it is small: s - 1 is exact.
#include "backends/emit/expand_math.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace framefuse::emit {
namespace {

using kernel_ir::Block;
using kernel_ir::Builder;
using kernel_ir::Inst;
using kernel_ir::Kernel;
using kernel_ir::Op;
using kernel_ir::Type;
using kernel_ir::ValueId;

class Expander {
 public:
  // `hides`: rounding to halves hides errors up to 2^-16.
  Expander(Builder* builder, bool hides, bool approximate)
      : b_(*builder), hides_(hides), can_approximate_(approximate) {}

  // `below`: x is at most 0, or NaN.
  ValueId Expand(const Inst& inst, ValueId x, bool below) {
    halves_ = hides_ || inst.imm != 0;
    approximate_ = halves_ && can_approximate_;
    switch (inst.op) {
      case Op::kExp:
        return below ? ExpBelow(x) : Exp(x);
      case Op::kExpm1:
        return Expm1(x);
      case Op::kLog:
        return Log(x);
      case Op::kLog1p:
        return Log1p(x);
      case Op::kTanh:
        return Tanh(x);
      case Op::kErf:
        return Erf(x);
      case Op::kSigmoid:
        return Sigmoid(x);
      default:
        return kernel_ir::kNoValue;
    }
  }

 private:
  ValueId F(double value) { return b_.Const(Type::kF32, value); }
  ValueId I(std::int64_t value) { return b_.ConstInt(Type::kI32, value); }
  ValueId Add(ValueId a, ValueId b) { return b_.Binary(Op::kAdd, a, b); }
  ValueId Sub(ValueId a, ValueId b) { return b_.Binary(Op::kSub, a, b); }
  ValueId Mul(ValueId a, ValueId b) { return b_.Binary(Op::kMul, a, b); }
  ValueId Fma(ValueId a, ValueId b, ValueId c) { return b_.Emit(Op::kFma, Type::kF32, {a, b, c}); }
  ValueId AtMost(double limit, ValueId x) { return b_.Binary(Op::kMinRaw, F(limit), x); }
  ValueId AtLeast(double limit, ValueId x) { return b_.Binary(Op::kMaxRaw, F(limit), x); }
  ValueId Abs(ValueId x) { return b_.Unary(Op::kAbs, x); }
  ValueId AsInt(ValueId x) { return b_.Emit(Op::kBitcast, Type::kI32, {x}); }
  ValueId AsFloat(ValueId x) { return b_.Emit(Op::kBitcast, Type::kF32, {x}); }
  ValueId Shift(Op op, ValueId x, std::uint64_t n) { return b_.Emit(op, Type::kI32, {x}, -1, n); }

  // Horner's rule, highest coefficient first.
  ValueId Polynomial(ValueId x, std::initializer_list<double> coefficients) {
    auto c = coefficients.begin();
    ValueId p = F(*c);
    for (++c; c != coefficients.end(); ++c) p = Fma(p, x, F(*c));
    return p;
  }

  // x = n * ln 2 + r with integral n; q = e^r - 1, exact to the last bits also near 0. `bits`: kInteger and n in one
  // float's bits, whose lowest are n's.
  static constexpr double kInteger = 12582912;  // its unit in the last place is 1
  static constexpr std::int64_t kIntegerBits = 0x4b400000;
  struct Reduced {
    ValueId bits, n, q;
  };
  Reduced ReduceExp(ValueId x) {
    const ValueId t = Fma(x, F(1.44269504088896341), F(kInteger));
    const ValueId n = Sub(t, F(kInteger));
    if (halves_) {
      const ValueId r = Fma(n, F(-0.693147180559945309), x);
      const ValueId p = Polynomial(r, {8.3333333333E-3, 4.1666666667E-2, 1.6666666667E-1, 0.5});
      return {AsInt(t), n, Fma(Mul(r, r), p, r)};
    }
    const ValueId r = Fma(n, F(2.12194440e-4), Fma(n, F(-0.693359375), x));
    const ValueId p = Polynomial(
        r, {1.9875691500E-4, 1.3981999507E-3, 8.3334519073E-3, 4.1665795894E-2, 1.6666665459E-1, 5.0000001201E-1});
    return {AsInt(t), n, Fma(Mul(r, r), p, r)};
  }

  // 2^(n + more) as a float, n + more in [-126, 127]; with kSign in `more` its negative.
  static constexpr std::int64_t kSign = 256;
  ValueId PowerOfTwo(const Reduced& e, std::int64_t more) {
    return AsFloat(Shift(Op::kShl, Add(e.bits, I(127 + more)), 23));
  }
  // e^x * 2^more, where n + more is in [-126, 127].
  ValueId Scaled(const Reduced& e, std::int64_t more) {
    const ValueId scale = PowerOfTwo(e, more);
    return Fma(scale, e.q, scale);
  }

  // The scale is applied in two steps, so that results round once into the denormals and overflow to infinity.
  ValueId Exp(ValueId x) {
    const Reduced e = ReduceExp(AtLeast(-104, AtMost(89, x)));
    const ValueId n = Add(e.bits, I(2 * 127 - kIntegerBits));
    const ValueId half = Shift(Op::kShr, n, 1);
    const ValueId first = AsFloat(Shift(Op::kShl, half, 23)), second = AsFloat(Shift(Op::kShl, Sub(n, half), 23));
    return Mul(Fma(first, e.q, first), second);
  }

  ValueId ExpBelow(ValueId x) { return Mul(Scaled(ReduceExp(AtLeast(-104, x)), 24), F(0x1p-24)); }

  ValueId Expm1(ValueId x) {
    const Reduced e = ReduceExp(AtLeast(-25, AtMost(89, x)));
    const ValueId s = PowerOfTwo(e, -1);
    const ValueId half = Fma(s, e.q, Sub(s, F(0.5)));
    const ValueId result = Add(half, half);
    // Below the normal range the polynomial's scaling loses bits, and -0 its sign: there e^x - 1 is x.
    return b_.Select(b_.Compare(Op::kLt, Abs(x), F(1e-30)), x, result);
  }

  ValueId Log(ValueId x) {
    const ValueId tiny = b_.Compare(Op::kLt, x, F(1.17549435e-38));
    const ValueId bits = AsInt(b_.Select(tiny, Mul(x, F(8388608)), x));
    const ValueId e = Shift(Op::kShr, Sub(bits, I(0x3f3504f3)), 23);
    const ValueId f = Sub(AsFloat(Sub(bits, Shift(Op::kShl, e, 23))), F(1));
    const ValueId exponent = Add(b_.Cast(Type::kF32, e), b_.Select(tiny, F(-23), F(0)));
    const ValueId square = Mul(f, f);
    ValueId y = Polynomial(f, {7.0376836292E-2, -1.1514610310E-1, 1.1676998740E-1, -1.2420140846E-1, 1.4249322787E-1,
                               -1.6668057665E-1, 2.0000714765E-1, -2.4999993993E-1, 3.3333331174E-1});
    y = Mul(Mul(y, f), square);
    y = Fma(exponent, F(-2.12194440e-4), y);
    y = Fma(square, F(-0.5), y);
    const ValueId result = Fma(exponent, F(0.693359375), Add(f, y));
    const double inf = std::numeric_limits<double>::infinity();
    const ValueId top = b_.Select(b_.Compare(Op::kLt, x, F(inf)), result, x);
    const ValueId zero = b_.Select(b_.Compare(Op::kEq, x, F(0)), F(-inf), top);
    return b_.Select(b_.Compare(Op::kLe, F(0), x), zero, F(std::numeric_limits<double>::quiet_NaN()));
  }

  // log(u) with u = 1 + x rounded, and a correction for the rounding of u.
  ValueId Log1p(ValueId x) {
    const ValueId u = Add(x, F(1));
    const ValueId log = Log(u);
    const ValueId correction = b_.Binary(Op::kDiv, Sub(x, Sub(u, F(1))), u);
    const ValueId finite = b_.Compare(Op::kLt, Abs(log), F(std::numeric_limits<double>::infinity()));
    const ValueId result = b_.Select(finite, Add(log, correction), log);
    return b_.Select(b_.Compare(Op::kLt, Abs(x), F(1e-30)), x, result);
  }

  ValueId WithSignOf(ValueId magnitude, ValueId x) {
    return b_.Binary(Op::kOr, magnitude, b_.Binary(Op::kAnd, x, F(-0.0)));
  }

  // With e = e^2|x| - 1 it is e / (e + 2). For f32 that is 2.2 ULP off: near 0 an odd polynomial, else 1 - 2 / (e + 2).
  ValueId Tanh(ValueId x) {
    const ValueId t = Abs(x), a = AtMost(10, t);
    const Reduced r = ReduceExp(Add(a, a));
    if (halves_) {
      const ValueId scale = PowerOfTwo(r, 0), e = Fma(scale, r.q, Sub(scale, F(1)));
      if (approximate_) return WithSignOf(Mul(e, ReciprocalOfNegative(Sub(F(-2), e))), x);
      return WithSignOf(b_.Binary(Op::kDiv, e, Add(e, F(2))), x);
    }
    const ValueId outer = Sub(F(1), b_.Binary(Op::kDiv, F(2), Add(Scaled(r, 0), F(1))));
    const ValueId z = Mul(t, t);
    const ValueId p =
        Polynomial(z, {-5.70498872745E-3, 2.06390887954E-2, -5.37397155531E-2, 1.33314422036E-1, -3.33332819422E-1});
    const ValueId inner = Fma(Mul(p, z), t, t);
    return WithSignOf(b_.Select(b_.Compare(Op::kLt, t, F(0.625)), inner, outer), x);
  }

  // 1 / (1 + e^-x), with a 2^25th of the sum, so that it is finite as long as the result is not 0. Past 70 it is 1.
  ValueId Sigmoid(ValueId x) {
    const Reduced e = ReduceExp(AtLeast(-70, AtMost(104, b_.Unary(Op::kNeg, x))));
    if (!approximate_) {
      const ValueId scale = PowerOfTwo(e, -25);
      return b_.Binary(Op::kDiv, F(0x1p-25), Add(scale, Fma(scale, e.q, F(0x1p-25))));
    }
    const ValueId scale = PowerOfTwo(e, -25 + kSign);
    return Mul(ReciprocalOfNegative(Add(scale, Fma(scale, e.q, F(-0x1p-25)))), F(0x1p-25));
  }

  // -1 / d, by one step of Newton's: with y about 1 / d it is y * (d * y - 2).
  ValueId ReciprocalOfNegative(ValueId d) {
    const ValueId y = b_.Unary(Op::kReciprocal14, d);
    return Mul(y, Fma(d, y, F(-2)));
  }

  // 1 - e^r with r = log(erfc(|x|)) / |x| as a polynomial, times |x|.
  ValueId Erf(ValueId x) {
    const ValueId t = AtMost(4, Abs(x));
    const ValueId p =
        halves_ ? Polynomial(
                      t, {1.56257554e-4, -2.73698585e-3, 2.14627595e-2, -1.03432676e-1, -6.36648784e-1, -1.28368769e-1})
                : Polynomial(t, {9.26171371e-6, -1.17687431e-4, 6.32992138e-4, -1.66729321e-3, 1.60642187e-4,
                                 1.91529429e-2, -1.02777802e-1, -6.36619385e-1, -1.28379172e-1});
    const Reduced e = ReduceExp(Fma(p, t, b_.Unary(Op::kNeg, t)));
    const ValueId scale = PowerOfTwo(e, kSign);
    return WithSignOf(Fma(scale, e.q, Add(scale, F(1))), x);
  }

  Builder& b_;
  const bool hides_, can_approximate_;
  bool halves_ = false;       // errors up to 2^-16 will do for the function at hand
  bool approximate_ = false;  // kReciprocal14 is there and exact enough
};

}  // namespace

Kernel ExpandMath(const Kernel& kernel, bool approximate, const std::function<bool(ValueId)>& leave) {
  Kernel out;
  out.name = kernel.name;
  out.skeleton = kernel.skeleton;
  out.outer_rank = kernel.outer_rank;
  out.segments = kernel.segments;
  out.scratch_rows = kernel.scratch_rows;
  out.params = kernel.params;
  out.buffers = kernel.buffers;
  Builder builder(&out);
  Expander expander(&builder, RoundingHidesErrors(kernel), approximate);
  std::vector<ValueId> map(kernel.insts.size(), kernel_ir::kNoValue);
  for (const Block& block : kernel.blocks) {
    builder.Begin(block.kind);
    for (ValueId id : block.code) {
      Inst inst = kernel[id];
      for (ValueId& arg : inst.args) {
        if (arg >= 0) arg = map[static_cast<std::size_t>(arg)];
      }
      ValueId result = kernel_ir::kNoValue;
      if (leave && leave(id)) {
        result = kernel_ir::kNoValue;
      } else if (inst.op == Op::kReciprocal) {
        result = builder.Binary(Op::kDiv, builder.Const(inst.type, 1), inst.args[0]);
      } else if (inst.op == Op::kRsqrt) {
        const ValueId root = builder.Unary(Op::kSqrt, inst.args[0]);
        result = builder.Binary(Op::kDiv, builder.Const(inst.type, 1), root);
      } else if (inst.type == Type::kF32) {
        const bool below = inst.op == Op::kExp && kernel_ir::IsBelowRowMax(kernel, kernel[id].args[0]);
        result = expander.Expand(inst, inst.args[0], below);
      }
      if (result < 0) {
        result = builder.Emit(inst.op, inst.type, {inst.args[0], inst.args[1], inst.args[2]}, inst.slot, inst.imm);
      }
      map[static_cast<std::size_t>(id)] = result;
    }
  }
  return out;
}

}  // namespace framefuse::emit
