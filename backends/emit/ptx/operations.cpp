// One instruction of the kernel IR as PTX, as C++ means it.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"
#include "common/check.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::IsFloat;

Class Printer::ClassOf(Type type) {
  constexpr Class kOf[] = {Class::kPred, Class::k32, Class::k64, Class::kF32, Class::kF64};
  return kOf[static_cast<int>(type)];
}

const char* Printer::Suffix(Type type) {
  constexpr const char* kOf[] = {".pred", ".s32", ".s64", ".f32", ".f64"};
  return kOf[static_cast<int>(type)];
}

Operand Printer::Constant(Type type, std::uint64_t imm) {
  if (type == Type::kF32) return ImmediateF32(std::bit_cast<double>(imm));
  if (type == Type::kF64) return ImmediateF64(std::bit_cast<double>(imm));
  if (type == Type::kI32) return Immediate(static_cast<std::int32_t>(imm));
  return Immediate(type == Type::kPred ? imm != 0 : static_cast<std::int64_t>(imm));
}

Operand Printer::Predicate(const Operand& v) { return IsImmediate(v) ? M(Class::kPred, "setp.ne.s32", {v, "0"}) : v; }

Operand Printer::Operation(const Inst& in) {
  const Operand a = kernel_ir::Arity(in.op) > 0 ? V(in.args[0]) : Operand();
  const Operand b = kernel_ir::Arity(in.op) > 1 ? V(in.args[1]) : Operand();
  switch (kernel_ir::ClassOf(in.op)) {
    case OpClass::kLeaf:
      return Constant(in.type, in.imm);
    case OpClass::kCompare:
      return Compare(in, a, b);
    case OpClass::kBits:
      return Bits(in, a, b);
    case OpClass::kConvert:
      return in.op == Op::kCast ? Cast(inst(in.args[0]).type, in.type, a) : Wrap(in, a);
    case OpClass::kArith:
    case OpClass::kMath:
      if (in.op == Op::kSelect) return Select(in.type, a, b, V(in.args[2]));
      return Arithmetic(in, a, b);
    case OpClass::kMemory:
    case OpClass::kReduce:
    case OpClass::kScan:
      break;  // of the loops
  }
  Fail(StrCat("no value of one point: ", std::string(Name(in.op))));
  return a;
}

namespace {

// 1 / x where that is exact, else 0.
double ExactReciprocal(const kernel_ir::Inst& x) {
  if (x.op != kernel_ir::Op::kConst) return 0;
  int exponent = 0;
  const double value = std::bit_cast<double>(x.imm), fraction = std::frexp(value, &exponent);
  return std::fabs(fraction) == 0.5 && std::abs(exponent) < 100 ? 1 / value : 0;
}

}  // namespace

Operand Printer::Arithmetic(const Inst& in, const Operand& a, const Operand& b) {
  if (in.type == Type::kPred) {
    Fail(StrCat("arithmetic of predicates: ", std::string(Name(in.op))));
    return a;
  }
  // What a half is rounded from must be the same in CUDA C++, which has a sine of its own.
  const bool differs = in.imm != 0 && (in.op == Op::kSin || in.op == Op::kCos);
  if (in.type == Type::kF32 && HasExact(in.op) && !differs) return Exact(in.op, a);
  const bool is_float = IsFloat(in.type);
  const std::string type = Suffix(in.type);
  const auto make = [&](const std::string& name) { return M(ClassOf(in.type), name + type, {a}); };
  const auto make2 = [&](const std::string& name) { return M(ClassOf(in.type), name + type, {a, b}); };
  const auto round = [&](const char* mode) { return M(ClassOf(in.type), StrCat("cvt.", mode, type, type), {a}); };
  switch (in.op) {
    case Op::kAdd:
      return make2("add");
    case Op::kSub:
      return make2("sub");
    case Op::kMul:
      return make2(is_float ? "mul" : "mul.lo");
    case Op::kDiv:
      if (const double factor = ExactReciprocal(inst(in.args[1])); factor != 0)
        return M(ClassOf(in.type), "mul" + type, {a, Constant(in.type, std::bit_cast<std::uint64_t>(factor))});
      return make2("div.rn");
    case Op::kFma:
      return M(ClassOf(in.type), "fma.rn" + type, {a, b, V(in.args[2])});
    case Op::kNeg:
      return make("neg");
    case Op::kAbs:
      return make("abs");
    case Op::kMin:
    case Op::kMax:
      return Extreme(in, a, b, in.op == Op::kMax, false);
    case Op::kMinRaw:
    case Op::kMaxRaw:
      return Extreme(in, a, b, in.op == Op::kMaxRaw, true);
    case Op::kFloor:
      return round("rmi");
    case Op::kCeil:
      return round("rpi");
    case Op::kTrunc:
      return round("rzi");
    case Op::kRound:
      return round("rni");
    case Op::kSqrt:
      return make("sqrt.rn");
    case Op::kReciprocal:
      return make("rcp.rn");
    default:
      Fail(StrCat("the function ", std::string(Name(in.op)), type));
      return a;
  }
}

Operand Printer::AsDouble(ValueId id) {
  if (inst(id).op == Op::kConst) return Constant(Type::kF64, inst(id).imm);
  return Cast(Type::kF32, Type::kF64, V(id));
}

// Once for many elements. div.rn is a call, which alone takes the assembler longer than most kernels. A quotient of
// doubles is far closer to the exact one than that is to the middle of two floats, if it is not exact itself; what is
// not normal among doubles is 0, infinite or no number, and already so by the estimate.
Operand Printer::ScalarQuotient(const Inst& in) {
  const bool of_one = in.op == Op::kReciprocal;
  if (!of_one && ExactReciprocal(inst(in.args[1])) != 0) return Operation(in);
  const auto make = [&](const char* name, Operands from) { return M(Class::kF64, name, from); };
  const Operand one = ImmediateF64(1), a = of_one ? one : AsDouble(in.args[0]), b = AsDouble(in.args[of_one ? 0 : 1]);
  const Operand minus_b = make("neg.f64", {b}), estimate = make("rcp.approx.ftz.f64", {b});
  Operand inverse = estimate;
  for (int i = 0; i < 2; ++i)
    inverse = make("fma.rn.f64", {make("fma.rn.f64", {minus_b, inverse, one}), inverse, inverse});
  const Operand near = make("mul.f64", {a, inverse}), rest = make("fma.rn.f64", {minus_b, near, a});
  const Operand rough = make("mul.f64", {a, estimate}), exact = make("fma.rn.f64", {rest, inverse, near});
  const Operand normal = M(Class::kPred, "testp.normal.f64", {rough});
  return Cast(Type::kF64, Type::kF32, make("selp.f64", {exact, rough, normal}));
}

// b where neither is less than the other: raw, and where f64 has no instruction for it. Of f32 one gives NaN.
Operand Printer::Extreme(const Inst& in, const Operand& a, const Operand& b, bool max, bool raw) {
  const std::string type = Suffix(in.type), name = max ? "max" : "min";
  const Class c = ClassOf(in.type);
  if (!IsFloat(in.type)) return M(c, name + type, {a, b});
  // Beside a number that is not 0 a NaN is all that is left to decide.
  const Inst& first = inst(in.args[0]);
  const double limit = first.op == Op::kConst ? std::bit_cast<double>(first.imm) : 0;
  if (in.type == Type::kF32 && (!raw || limit < 0 || limit > 0)) return M(c, name + ".NaN" + type, {a, b});
  const Operand better = M(Class::kPred, StrCat("setp.", max ? "gt" : "lt", type), {a, b});
  Operand best = Select(in.type, better, a, b);
  if (raw) return best;
  const Operand kept = Select(in.type, M(Class::kPred, "setp.nan" + type, {b, b}), b, best);
  return Select(in.type, M(Class::kPred, "setp.nan" + type, {a, a}), a, kept);
}

Operand Printer::Compare(const Inst& in, const Operand& a, const Operand& b) {
  const Type type = inst(in.args[0]).type;
  if (type == Type::kPred) return ComparePreds(in.op, Predicate(a), Predicate(b));
  const char* name = "ne";
  if (in.op == Op::kLt) name = "lt";
  if (in.op == Op::kLe) name = "le";
  if (in.op == Op::kEq) name = "eq";
  if (in.op == Op::kNe && IsFloat(type)) name = "neu";
  return M(Class::kPred, StrCat("setp.", name, Suffix(type)), {a, b});
}

Operand Printer::ComparePreds(Op op, const Operand& a, const Operand& b) {
  const auto make = [&](const char* name, const Operand& x, const Operand& y) { return M(Class::kPred, name, {x, y}); };
  const auto negated = [&](const Operand& x) { return M(Class::kPred, "not.pred", {x}); };
  switch (op) {
    case Op::kLt:
      return make("and.pred", negated(a), b);
    case Op::kLe:
      return make("or.pred", negated(a), b);
    case Op::kEq:
      return negated(make("xor.pred", a, b));
    case Op::kNe:
      return make("xor.pred", a, b);
    default:
      FF_CHECK(false) << kernel_ir::Name(op) << " compares nothing";
      return a;
  }
}

Operand Printer::Bits(const Inst& in, const Operand& a, const Operand& b) {
  if (in.op == Op::kBitcast) return Bitcast(inst(in.args[0]).type, in.type, a);
  const bool pred = in.type == Type::kPred, is_float = IsFloat(in.type);
  const std::string type = pred ? ".pred" : kernel_ir::Is64Bit(in.type) ? ".b64" : ".b32";
  const Type as = kernel_ir::Is64Bit(in.type) ? Type::kI64 : Type::kI32;
  const auto bits = [&](const Operand& v) {
    if (v.empty()) return v;
    return pred ? Predicate(v) : is_float ? Bitcast(in.type, as, v) : v;
  };
  const Operand x = bits(a), y = bits(b);
  const Class c = pred ? Class::kPred : ClassOf(as);
  Operand result;
  switch (in.op) {
    case Op::kAnd:
      result = M(c, "and" + type, {x, y});
      break;
    case Op::kOr:
      result = M(c, "or" + type, {x, y});
      break;
    case Op::kXor:
      result = M(c, "xor" + type, {x, y});
      break;
    case Op::kNot:
      result = M(c, "not" + type, {x});
      break;
    case Op::kShl:
      result = M(c, "shl" + type, {x, Immediate(static_cast<std::int64_t>(in.imm))});
      break;
    case Op::kShr:
      result = M(c, StrCat("shr", Suffix(as)), {x, Immediate(static_cast<std::int64_t>(in.imm))});
      break;
    default:
      FF_CHECK(false) << kernel_ir::Name(in.op) << " is no operation on bits";
  }
  return is_float ? Bitcast(as, in.type, result) : result;
}

Operand Printer::Select(Type type, const Operand& condition, const Operand& a, const Operand& b) {
  const Operand p = Predicate(condition);
  if (type == Type::kPred) {
    const Operand yes = M(Class::kPred, "and.pred", {p, Predicate(a)});
    const Operand no = M(Class::kPred, "and.pred", {M(Class::kPred, "not.pred", {p}), Predicate(b)});
    return M(Class::kPred, "or.pred", {yes, no});
  }
  return M(ClassOf(type), StrCat("selp", Suffix(type)), {a, b, p});
}

Operand Printer::Cast(Type from, Type to, const Operand& v) {
  if (from == to) return v;
  if (from == Type::kPred) {
    return M(ClassOf(to), StrCat("selp", Suffix(to)),
             {Constant(to, IsFloat(to) ? std::bit_cast<std::uint64_t>(1.0) : 1), Constant(to, 0), Predicate(v)});
  }
  if (to == Type::kPred)
    return M(Class::kPred, StrCat("setp.", IsFloat(from) ? "neu" : "ne", Suffix(from)), {v, Constant(from, 0)});
  const char* mode = "";
  if (!IsFloat(to)) {
    mode = IsFloat(from) ? ".rzi" : "";
  } else if (!IsFloat(from) || to == Type::kF32) {
    mode = ".rn";
  }
  return M(ClassOf(to), StrCat("cvt", mode, Suffix(to), Suffix(from)), {v});
}

Operand Printer::Wrap(const Inst& in, const Operand& v) {
  switch (static_cast<DType>(in.imm)) {
    case DType::kU8:
      return M(Class::k32, "and.b32", {v, "255"});
    case DType::kI8:
      return M(Class::k32, "bfe.s32", {v, "0", "8"});
    case DType::kI16:
      return M(Class::k32, "bfe.s32", {v, "0", "16"});
    case DType::kBF16: {
      const Operand pair = M(Class::k32, "cvt.rn.bf16x2.f32", {v, ImmediateF32(0)});
      return M(Class::kF32, "and.b32", {pair, "0xffff0000"});
    }
    case DType::kF16:
      return M(Class::kF32, "cvt.f32.f16", {M(Class::k16, "cvt.rn.f16.f32", {v})});
    case DType::kBool:
    case DType::kI32:
    case DType::kI64:
    case DType::kF32:
    case DType::kF64:
      break;  // as wide as it is computed
  }
  return v;
}

Operand Printer::Bitcast(Type from, Type to, const Operand& v) {
  if (from == to || !IsImmediate(v)) return v;  // registers have no type
  return M(ClassOf(to), kernel_ir::Is64Bit(to) ? "mov.b64" : "mov.b32", {v});
}

void Printer::Combine(const Operand& to, const Inst& in, const Operand& a, const Operand& b) {
  const std::string type = Suffix(in.type);
  const bool is_float = IsFloat(in.type);
  switch (in.op) {
    case Op::kReduceSum:
      return t_.To(to, "add" + type, {a, b});
    case Op::kReduceProd:
      return t_.To(to, (is_float ? "mul" : "mul.lo") + type, {a, b});
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kReduceMaxRaw:
      break;
    default:
      FF_CHECK(false) << kernel_ir::Name(in.op) << " reduces nothing";
  }
  const std::string name = in.op == Op::kReduceMin ? "min" : "max";
  if (!is_float || in.op == Op::kReduceMaxRaw) return t_.To(to, name + type, {a, b});
  if (in.type == Type::kF32) return t_.To(to, name + ".NaN" + type, {a, b});
  const Inst plain{name == "min" ? Op::kMin : Op::kMax, in.type, {in.args[0], in.args[0]}, -1, 0};
  t_.To(to, "mov.f64", {Extreme(plain, a, b, name == "max", false)});
}

Operand Printer::Identity(const Inst& in) {
  const bool max = in.op == Op::kReduceMax || in.op == Op::kReduceMaxRaw;
  const auto number = [&](double value) {
    return Constant(in.type,
                    IsFloat(in.type) ? std::bit_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
  };
  if (in.op == Op::kReduceSum) return number(0);
  if (in.op == Op::kReduceProd) return number(1);
  const double inf = std::numeric_limits<double>::infinity();
  if (IsFloat(in.type)) return number(max ? -inf : inf);
  if (in.type == Type::kI64) return Immediate(max ? INT64_MIN : INT64_MAX);
  return Immediate(max ? INT32_MIN : INT32_MAX);
}

}  // namespace framefuse::emit::ptx
