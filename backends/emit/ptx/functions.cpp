// The short functions of the prelude (emit/cuda/prelude.cu) in PTX: the same instructions and constants, so that a
// half is one number in whichever text a kernel has.
#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {
namespace {

// Writes functions of x.
class Short {
 public:
  explicit Short(Text* text) : t_(*text) {}

  Operand Call(std::string_view name, const Operand& x) {
    if (name == "exp_for_half") {
      const Operand root = PowerOfTwo(Mul(x, N(0.721347520f)));
      return Mul(root, root);
    }
    if (name == "exp_beside_one") return PowerOfTwo(Mul(x, N(1.44269504f)));
    if (name == "sigmoid_for_half") {
      const Operand sum = Add(N(0.25f), PowerOfTwo(Fma(x, N(-1.44269504f), N(-2.0f))));
      return Mul(N(0.25f), One("rcp.approx.ftz.f32", sum));
    }
    if (name == "tanh_for_bf16") return One("tanh.approx.f32", x);
    if (name == "tanh_beside_one") return TanhBesideOne(x);
    if (name == "tanh_for_half") {
      const Operand near_zero = Mul(x, Fma(Mul(x, x), N(-0.333333343f), N(1.0f)));
      return Nearer(x, 0.0625f, near_zero, TanhBesideOne(x));
    }
    if (name == "erf_beside_one") return ErfBesideOne(x);
    if (name == "erf_for_half") {
      const Operand s = Mul(x, x);
      const Operand near_zero = Mul(Fma(Fma(N(1.03277437e-1f), s, N(-3.75241139e-1f)), s, N(1.12836681f)), x);
      return Nearer(x, 0.5f, near_zero, ErfBesideOne(x));
    }
    if (name == "log_for_half") {
      const Operand past_one = Sub(x, N(1.0f));
      return Nearer(past_one, 0.03125f, LogNearOne(past_one), Logarithm(x));
    }
    if (name == "log1p_for_half") return Nearer(x, 0.03125f, LogNearOne(x), Logarithm(Add(x, N(1.0f))));
    if (name == "expm1_for_half") {
      const Operand near_zero = Mul(x, Fma(x, Fma(x, Fma(x, N(4.16666679e-2f), N(0.166666672f)), N(0.5f)), N(1.0f)));
      const Operand root = PowerOfTwo(Mul(x, N(0.721347520f)));
      return Nearer(x, 0.0625f, near_zero, Fma(root, root, N(-1.0f)));
    }
    if (name == "sqrt_for_half") return One("sqrt.approx.f32", x);
    if (name == "reciprocal_for_half") return t_.Make(Class::kF32, "div.full.f32", {N(1.0f), x});
    return {};
  }

 private:
  static Operand N(float value) { return ImmediateF32(static_cast<double>(value)); }
  Operand One(const char* name, const Operand& a) { return t_.Make(Class::kF32, name, {a}); }
  Operand Add(const Operand& a, const Operand& b) { return t_.Make(Class::kF32, "add.f32", {a, b}); }
  Operand Mul(const Operand& a, const Operand& b) { return t_.Make(Class::kF32, "mul.f32", {a, b}); }
  Operand Sub(const Operand& a, const Operand& b) { return t_.Make(Class::kF32, "sub.f32", {a, b}); }
  Operand Fma(const Operand& a, const Operand& b, const Operand& c) {
    return t_.Make(Class::kF32, "fma.rn.f32", {a, b, c});
  }
  Operand PowerOfTwo(const Operand& a) { return One("ex2.approx.ftz.f32", a); }  // denormal results are 0
  // Where |x| is less than the limit.
  Operand Nearer(const Operand& x, float limit, const Operand& near, const Operand& far) {
    const Operand p = t_.Make(Class::kPred, "setp.lt.f32", {One("abs.f32", x), N(limit)});
    return t_.Make(Class::kF32, "selp.f32", {near, far, p});
  }
  Operand Logarithm(const Operand& x) { return Mul(One("lg2.approx.f32", x), N(0.693147182f)); }
  Operand LogNearOne(const Operand& x) {
    return Mul(x, Fma(x, Fma(x, Fma(x, N(-0.25f), N(0.333333343f)), N(-0.5f)), N(1.0f)));
  }
  Operand TanhBesideOne(const Operand& x) {
    const Operand sum = Add(N(1.0f), PowerOfTwo(Mul(x, N(2.88539008f))));
    return Fma(N(-2.0f), One("rcp.approx.ftz.f32", sum), N(1.0f));
  }
  Operand ErfBesideOne(const Operand& x) {
    const Operand t = t_.Make(Class::kF32, "min.NaN.f32", {One("abs.f32", x), N(4.2f)});
    Operand p = Fma(N(-2.02705703e-5f), t, N(4.85526123e-4f));
    for (float c : {-5.22103633e-3f, 3.39045750e-2f, -1.52423597e-1f, -9.17084571e-1f, -1.62806277f})
      p = Fma(p, t, N(c));
    const Operand rest = Sub(N(1.0f), PowerOfTwo(Mul(p, t)));
    return t_.Make(Class::kF32, "copysign.f32", {x, rest});
  }
  Text& t_;
};

}  // namespace

Operand Printer::Function(std::string_view name, const Operand& a, const Operand& b) {
  if (name == "divide_for_half") return M(Class::kF32, "div.full.f32", {a, b});
  Operand result = Short(&t_).Call(name, a);
  if (result.empty()) {
    Fail(absl::StrCat("the function ", std::string(name)));
    return a;
  }
  return result;
}

}  // namespace framefuse::emit::ptx
