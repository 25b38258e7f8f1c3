// Sine and cosine of f32, to 2 ULP for every angle: the rest of a division by pi / 2 in three steps where the quotient
// is small, and by the bits of 2 / pi that count where it is not; then a polynomial.
#include <limits>

#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

namespace {

Operand N(double value) { return ImmediateF32(value); }

}  // namespace

Operand Printer::ExactSine(const Operand& x, bool cosine) {
  const auto fma = [&](const Operand& a, const Operand& b, const Operand& c) {
    return M(Class::kF32, "fma.rn.f32", {a, b, c});
  };
  Operand turns = M(Class::k32, "cvt.rni.s32.f32", {M(Class::kF32, "mul.f32", {x, N(0.636619747)})});
  const Operand quotient = M(Class::kF32, "cvt.rn.f32.s32", {turns});
  // The parts of pi / 2 are positive: a zero keeps its sign.
  Operand rest = x;
  for (double part : {1.57079625129699707, 7.54978941586159635e-8, 5.39030252995776477e-15})
    rest = fma(quotient, N(-part), rest);
  // Below this the quotient times the first part is exact to the bits that x has.
  const std::string small = t_.Label();
  t_.JumpUnless(M(Class::kPred, "setp.gt.f32", {M(Class::kF32, "abs.f32", {x}), N(65536)}), small);
  RestOfLargeAngle(x, rest, turns);
  t_.Place(small);
  if (cosine) turns = M(Class::k32, "add.s32", {turns, "1"});
  const Operand z = M(Class::kF32, "mul.f32", {rest, rest});
  // A factor beside 1, so that a zero keeps its sign.
  Operand s = fma(fma(N(-1.9515295891E-4), z, N(8.3321608736E-3)), z, N(-1.6666654611E-1));
  s = M(Class::kF32, "mul.f32", {rest, fma(s, z, N(1))});
  Operand c = fma(fma(N(2.443315711809948E-5), z, N(-1.388731625493765E-3)), z, N(4.166664568298827E-2));
  c = fma(fma(c, z, N(-0.5)), z, N(1));
  const Operand odd = M(Class::kPred, "setp.ne.s32", {M(Class::k32, "and.b32", {turns, "1"}), "0"});
  const Operand value = Select(Type::kF32, odd, c, s);
  const Operand sign = M(Class::k32, "shl.b32", {M(Class::k32, "and.b32", {turns, "2"}), "30"});
  return M(Class::kF32, "xor.b32", {value, sign});
}

// x = m * 2^e with integral m. Bits of 2 / pi whose product with x is a multiple of 4 do not count: from the others on
// 96 are enough. m times these is the quotient modulo 4 in two bits, and its fraction.
void Printer::RestOfLargeAngle(const Operand& x, const Operand& rest, const Operand& turns) {
  const auto word = [&](const char* name, Operands from) { return M(Class::k32, name, from); };
  const auto wide = [&](const char* name, Operands from) { return M(Class::k64, name, from); };
  const Operand bits = Bitcast(Type::kF32, Type::kI32, x);
  const Operand m = word("or.b32", {word("and.b32", {bits, "0x7fffff"}), "0x800000"});
  // The table begins with 32 zeros: 150 - 30 are what is to be taken off the exponent.
  const Operand skip = word("add.s32", {word("bfe.u32", {bits, "23", "8"}), "-120"});
  const Operand table = wide("cvta.to.global.u64", {wide("cvta.global.u64", {wide("mov.u64", {kTwoOverPi})})});
  const Operand first = wide("mad.wide.u32", {word("shr.u32", {skip, "5"}), "4", table});
  const Operand shift = word("and.b32", {skip, "31"});
  std::vector<Operand> words, window;
  for (std::int64_t i = 0; i < 4; ++i) words.push_back(word("ld.global.u32", {Memory(first, 4 * i)}));
  for (std::size_t i = 0; i < 3; ++i) {
    const Operand both = wide("mov.b64", {Group({words[i + 1], words[i]})});
    window.push_back(word("cvt.u32.u64", {wide("shr.u64", {wide("shl.b64", {both, shift}), "32"})}));
  }
  const Operand low = wide("cvt.u64.u32", {word("mul.hi.u32", {m, window[2]})});
  const Operand middle = wide("mad.wide.u32", {m, window[1], low});
  const Operand high = wide("shl.b64", {wide("cvt.u64.u32", {word("mul.lo.u32", {m, window[0]})}), "32"});
  const Operand product = wide("add.s64", {middle, high});
  const Operand eighths = word("cvt.u32.u64", {wide("shr.u64", {product, "61"})});
  const Operand nearest = word("shr.u32", {word("add.u32", {eighths, "1"}), "1"});
  const Operand fraction = M(Class::kF64, "cvt.rn.f64.s64", {wide("shl.b64", {product, "2"})});
  constexpr double kAngle = 1.57079632679489662 * 0x1p-64;
  const Operand angle = M(Class::kF32, "cvt.rn.f32.f64", {M(Class::kF64, "mul.f64", {fraction, ImmediateF64(kAngle)})});
  const Operand negative = M(Class::kPred, "setp.lt.s32", {bits, "0"});
  const Operand infinite = M(Class::kPred, "setp.eq.s32", {word("and.b32", {bits, "0x7fffffff"}), "0x7f800000"});
  const Operand signed_angle = Select(Type::kF32, negative, M(Class::kF32, "neg.f32", {angle}), angle);
  t_.To(rest, "selp.f32", {N(std::numeric_limits<double>::quiet_NaN()), signed_angle, infinite});
  t_.To(turns, "selp.s32", {word("neg.s32", {nearest}), nearest, negative});
}

}  // namespace framefuse::emit::ptx
