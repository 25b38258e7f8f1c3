#include "backends/emit/cuda/expressions.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace framefuse::emit {
namespace {

using kernel_ir::Arity;
using kernel_ir::DType;
using kernel_ir::Inst;
using kernel_ir::Kernel;
using kernel_ir::Op;
using kernel_ir::Type;

std::string Constant(const Inst& inst) {
  char text[64];
  if (!kernel_ir::IsFloat(inst.type)) {
    const auto value = static_cast<long long>(inst.imm);
    if (inst.type == Type::kPred) return value != 0 ? "true" : "false";
    if (inst.type == Type::kI32) return absl::StrCat("(i32)", static_cast<std::int32_t>(value), "ll");
    return absl::StrCat("(i64)", static_cast<unsigned long long>(value), "ull");
  }
  const double value = std::bit_cast<double>(inst.imm);
  if (inst.type == Type::kF32) {
    const auto narrow = static_cast<float>(value);
    if (std::isfinite(narrow)) {
      std::snprintf(text, sizeof text, "%af", static_cast<double>(narrow));
    } else {
      std::snprintf(text, sizeof text, "__int_as_float(0x%08x)", std::bit_cast<unsigned>(narrow));
    }
  } else if (std::isfinite(value)) {
    std::snprintf(text, sizeof text, "%a", value);
  } else {
    std::snprintf(text, sizeof text, "__longlong_as_double(0x%016llxll)", static_cast<unsigned long long>(inst.imm));
  }
  return text;
}

std::string Operand(const Inst& inst, std::size_t i) { return absl::StrCat("v", inst.args[i]); }

std::string Call(const Inst& inst, const std::string& function) {
  std::string text = function + "(" + Operand(inst, 0);
  for (int i = 1; i < Arity(inst.op); ++i) text += ", " + Operand(inst, static_cast<std::size_t>(i));
  return text + ")";
}

// Signed overflow wraps, as in torch.
std::string Infix(const Inst& inst, const char* op) {
  const std::string a = Operand(inst, 0), b = Operand(inst, 1);
  if (kernel_ir::IsInt(inst.type)) {
    const char* wide = inst.type == Type::kI32 ? "u32" : "u64";
    return absl::StrCat("(", LaneType(inst.type), ")((", wide, ")", a, " ", op, " (", wide, ")", b, ")");
  }
  return absl::StrCat(a, " ", op, " ", b);
}

std::string Wrap(const Inst& inst) {
  std::string v = Operand(inst, 0);
  switch (static_cast<DType>(inst.imm)) {
    case DType::kU8:
      return "(i32)(u8)" + v;
    case DType::kI8:
      return "(i32)(signed char)" + v;
    case DType::kI16:
      return "(i32)(short)" + v;
    case DType::kBF16:
      return "round_bf16(" + v + ")";
    case DType::kF16:
      return "round_f16(" + v + ")";
    case DType::kBool:
    case DType::kI32:
    case DType::kI64:
    case DType::kF32:
    case DType::kF64:
      break;  // as wide as it is computed
  }
  return v;
}

std::string Bitcast(const Kernel& kernel, const Inst& inst) {
  std::string v = Operand(inst, 0);
  if (kernel[inst.args[0]].type == inst.type) return v;
  switch (inst.type) {
    case Type::kF32:
      return "__int_as_float(" + v + ")";
    case Type::kF64:
      return "__longlong_as_double(" + v + ")";
    case Type::kI32:
      return "__float_as_int(" + v + ")";
    case Type::kI64:
      return "__double_as_longlong(" + v + ")";
    case Type::kPred:
      break;
  }
  FF_CHECK(false) << "no type has the width of a predicate";
  return v;
}

// Functions of C's library, by type: exp and expf.
std::string Library(const Inst& inst, const std::string& name) {
  return Call(inst, inst.type == Type::kF32 ? name + "f" : name);
}

std::string Compare(const Inst& inst, const char* op) {
  return absl::StrCat(Operand(inst, 0), " ", op, " ", Operand(inst, 1));
}

std::string Arithmetic(const Kernel& kernel, const Inst& inst) {
  const bool is_float = kernel_ir::IsFloat(inst.type);
  const std::string a = Operand(inst, 0);
  switch (inst.op) {
    case Op::kAdd:
      return Infix(inst, "+");
    case Op::kSub:
      return Infix(inst, "-");
    case Op::kMul:
      return Infix(inst, "*");
    case Op::kDiv:
      return Infix(inst, "/");
    case Op::kNeg:
      if (is_float) return "-" + a;
      return absl::StrCat("(", LaneType(inst.type), ")(0 - (", inst.type == Type::kI32 ? "u32" : "u64", ")", a, ")");
    case Op::kAbs:
      if (is_float) return Library(inst, "fabs");
      return absl::StrCat(a, " < 0 ? (", LaneType(inst.type), ")(0 - (", inst.type == Type::kI32 ? "u32" : "u64", ")",
                          a, ") : ", a);
    case Op::kMin:
      return Call(inst, "min_nan");
    case Op::kMax:
      return Call(inst, "max_nan");
    case Op::kMinRaw:
      return Call(inst, "min_raw");
    case Op::kMaxRaw:
      return Call(inst, "max_raw");
    case Op::kRound:
      return Library(inst, "rint");
    case Op::kReciprocal:
      return "1 / " + a;
    case Op::kSelect:
      return absl::StrCat(a, " ? ", Operand(inst, 1), " : ", Operand(inst, 2));
    case Op::kCast:
      if (inst.type == Type::kPred) return a + " != 0";
      return absl::StrCat("(", LaneType(inst.type), ")", a);
    case Op::kWrap:
      return Wrap(inst);
    case Op::kBitcast:
      return Bitcast(kernel, inst);
    case Op::kSigmoid:
      return Call(inst, "sigmoid");
    default:
      return Library(inst, std::string(Name(inst.op)));
  }
}

}  // namespace

std::string LaneType(Type type) {
  constexpr std::string_view kLane[] = {"bool", "i32", "i64", "float", "double"};
  return std::string(kLane[static_cast<int>(type)]);
}

std::string MemoryType(DType dtype) {
  constexpr std::string_view kMemory[] = {"bool", "u8",  "signed char", "short", "i32",
                                          "i64",  "f16", "bf16",        "float", "double"};
  return std::string(kMemory[static_cast<int>(dtype)]);
}

std::string Expression(const Kernel& kernel, const Inst& inst) {
  switch (inst.op) {
    case Op::kConst:
      return Constant(inst);
    case Op::kLt:
      return Compare(inst, "<");
    case Op::kLe:
      return Compare(inst, "<=");
    case Op::kEq:
      return Compare(inst, "==");
    case Op::kNe:
      return Compare(inst, "!=");
    case Op::kAnd:
      return Compare(inst, "&");
    case Op::kOr:
      return Compare(inst, "|");
    case Op::kXor:
      return Compare(inst, "^");
    case Op::kNot:
      return (inst.type == Type::kPred ? "!" : "~") + Operand(inst, 0);
    case Op::kShl:
      return absl::StrCat(Operand(inst, 0), " << ", inst.imm);
    case Op::kShr:
      return absl::StrCat(Operand(inst, 0), " >> ", inst.imm);
    default:
      return Arithmetic(kernel, inst);
  }
}

std::string ReductionFunctor(Op op) {
  switch (op) {
    case Op::kReduceSum:
      return "Sum";
    case Op::kReduceProd:
      return "Prod";
    case Op::kReduceMin:
      return "Min";
    case Op::kReduceMaxRaw:
      return "MaxRaw";
    case Op::kReduceMax:
      return "Max";
    default:
      FF_CHECK(false) << kernel_ir::Name(op) << " reduces nothing";
      return "";
  }
}

std::string ReductionIdentity(const Inst& inst) {
  const bool max = inst.op == Op::kReduceMax || inst.op == Op::kReduceMaxRaw;
  const std::string type = "(" + LaneType(inst.type) + ")";
  if (inst.op == Op::kReduceSum) return type + "0";
  if (inst.op == Op::kReduceProd) return type + "1";
  switch (inst.type) {
    case Type::kF32:
      return max ? "__int_as_float(0xff800000)" : "__int_as_float(0x7f800000)";
    case Type::kF64:
      return max ? "__longlong_as_double(0xfff0000000000000ll)" : "__longlong_as_double(0x7ff0000000000000ll)";
    case Type::kI64:
      return max ? "(-9223372036854775807ll - 1)" : "9223372036854775807ll";
    case Type::kI32:
    case Type::kPred:
      break;
  }
  return max ? "(-2147483647 - 1)" : "2147483647";
}

}  // namespace framefuse::emit
