// Functions of f32 that are exact to 2 ULP, by the processor's own powers of two: shorter than expand_math's, which has
// the rest.
#include "backends/emit/ptx/printer.h"
#include "common/check.h"

namespace framefuse::emit::ptx {

namespace {

Operand N(double value) { return ImmediateF32(value); }

}  // namespace

bool Printer::HasExact(Op op) {
  return op == Op::kExp || op == Op::kExp2 || op == Op::kSigmoid || op == Op::kTanh || op == Op::kSin ||
         op == Op::kCos || op == Op::kRsqrt || op == Op::kReciprocal;
}

Operand Printer::Exact(Op op, const Operand& x) {
  const auto one = [&](const char* name, const Operand& v) { return M(Class::kF32, name, {v}); };
  switch (op) {
    case Op::kExp:
      return ExactExp(x);
    case Op::kExp2:
      return one("ex2.approx.f32", x);
    case Op::kRsqrt:
      return one("rsqrt.approx.f32", x);
    case Op::kReciprocal:
      return one("rcp.rn.f32", x);
    case Op::kSin:
    case Op::kCos:
      return ExactSine(x, op == Op::kCos);
    case Op::kSigmoid:
      return one("rcp.approx.f32", M(Class::kF32, "add.f32", {N(1), ExactExp(one("neg.f32", x))}));
    case Op::kTanh:
      return ExactTanh(x);
    default:
      FF_CHECK(false) << kernel_ir::Name(op) << " has no exact form (HasExact)";
      return x;
  }
}

// x = n * ln 2 + the rest, n within what floats' exponents are; the power of two takes what is left at the ends. n +
// 127 is in the lowest bits of `shifted`.
Operand Printer::ExactExp(const Operand& x) {
  constexpr double kInteger = 12582912 + 127, kLog2 = 1.44269502, kLog2Rest = 1.92596303e-8;
  const auto fma = [&](const Operand& a, double b, const Operand& c) {
    return M(Class::kF32, "fma.rn.f32", {a, N(b), c});
  };
  const Operand above = M(Class::kF32, "max.f32", {x, N(-87)});
  const Operand shifted = fma(M(Class::kF32, "min.f32", {above, N(87)}), kLog2, N(kInteger));
  const Operand n = M(Class::kF32, "sub.f32", {shifted, N(kInteger)});
  const Operand rest = fma(x, kLog2Rest, fma(x, kLog2, M(Class::kF32, "neg.f32", {n})));
  const Operand bits = M(Class::k32, "shl.b32", {shifted, "23"});
  const Operand power = M(Class::kF32, "ex2.approx.ftz.f32", {rest});
  return M(Class::kF32, "mul.f32", {power, bits});
}

// Near 0 an odd polynomial, else 1 - 2 / (e^2|x| + 1).
Operand Printer::ExactTanh(const Operand& x) {
  const auto fma = [&](const Operand& a, const Operand& b, const Operand& c) {
    return M(Class::kF32, "fma.rn.f32", {a, b, c});
  };
  const auto mul = [&](const Operand& a, const Operand& b) { return M(Class::kF32, "mul.f32", {a, b}); };
  const Operand t = M(Class::kF32, "abs.f32", {x});
  const Operand power = M(Class::kF32, "ex2.approx.ftz.f32", {mul(t, N(2.88539008))});
  const Operand inverse = M(Class::kF32, "rcp.approx.ftz.f32", {M(Class::kF32, "add.f32", {power, N(1)})});
  const Operand outer = fma(N(-2), inverse, N(1));
  const Operand z = mul(t, t);
  Operand p = N(-5.70498872745E-3);
  for (double c : {2.06390887954E-2, -5.37397155531E-2, 1.33314422036E-1, -3.33332819422E-1}) p = fma(p, z, N(c));
  const Operand inner = fma(mul(p, z), t, t);
  const Operand near = M(Class::kPred, "setp.lt.f32", {t, N(0.625)});
  return M(Class::kF32, "copysign.f32", {x, M(Class::kF32, "selp.f32", {inner, outer, near})});
}

}  // namespace framefuse::emit::ptx
