// Text of symbolic sizes: s0, 2*s0 + 1 and their like, printed and read.
#include <bit>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include "backends/graph/dim.h"
#include "backends/graph/text_names.h"

namespace framefuse::ir {
namespace {

// Python's precedences; a child that binds weaker is put in parentheses.
enum Precedence {
  kLowest,
  kOrLevel,
  kAndLevel,
  kNotLevel,
  kCompareLevel,
  kSumLevel,
  kProductLevel,
  kUnaryLevel,
  kPowerLevel,
  kAtom
};

struct Infix {
  const char* text;
  Precedence level;
};

Infix InfixOf(ExprKind kind) {
  switch (kind) {
    case ExprKind::kAdd:
      return {" + ", kSumLevel};
    case ExprKind::kMul:
      return {"*", kProductLevel};
    case ExprKind::kFloorDiv:
      return {" // ", kProductLevel};
    case ExprKind::kMod:
      return {" % ", kProductLevel};
    case ExprKind::kTrueDiv:
      return {" / ", kProductLevel};
    case ExprKind::kPow:
      return {"**", kPowerLevel};
    case ExprKind::kEq:
      return {" == ", kCompareLevel};
    case ExprKind::kNe:
      return {" != ", kCompareLevel};
    case ExprKind::kLt:
      return {" < ", kCompareLevel};
    case ExprKind::kLe:
      return {" <= ", kCompareLevel};
    case ExprKind::kAnd:
      return {" and ", kAndLevel};
    case ExprKind::kOr:
      return {" or ", kOrLevel};
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kNeg:
    case ExprKind::kToFloat:
    case ExprKind::kToInt:
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kRound:
#define FF_FUNCTION(kind, name, value) case ExprKind::kind:
#include "backends/graph/float_functions.def"
    case ExprKind::kNot:
      break;
  }
  return {nullptr, kAtom};
}

constexpr std::pair<std::string_view, ExprKind> kFunctions[] = {
    {"min", ExprKind::kMin},     {"max", ExprKind::kMax},   {"float", ExprKind::kToFloat}, {"int", ExprKind::kToInt},
    {"floor", ExprKind::kFloor}, {"ceil", ExprKind::kCeil}, {"round", ExprKind::kRound},
#define FF_FUNCTION(kind, name, value) {name, ExprKind::kind},
#include "backends/graph/float_functions.def"
};

std::string NameOfFunction(ExprKind kind) {
  for (const auto& [name, of] : kFunctions) {
    if (of == kind) return std::string(name);
  }
  return "";
}

std::string PrintConstant(const Expr& e) {
  if (e.type == NumberType::kFloat) return PrintFloat(std::bit_cast<double>(e.value));
  if (e.type == NumberType::kBool) return e.value != 0 ? "True" : "False";
  return std::to_string(e.value);
}

std::string PrintExpr(const ExprTable& table, ExprId id, Precedence outer) {
  const Expr& e = table[id];
  std::string text;
  Precedence level = kAtom;
  switch (e.kind) {
    case ExprKind::kConstant:
      text = PrintConstant(e);
      if (text[0] == '-') level = kUnaryLevel;
      break;
    case ExprKind::kSymbol:
      text = table.symbols()[static_cast<std::size_t>(e.value)].name;
      break;
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kToFloat:
    case ExprKind::kToInt:
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kRound:
#define FF_FUNCTION(kind, name, value) case ExprKind::kind:
#include "backends/graph/float_functions.def"
      text = NameOfFunction(e.kind) + ("(" + PrintExpr(table, e.left, kLowest));
      if (e.right != kNoExpr) text += ", " + PrintExpr(table, e.right, kLowest);
      text += ")";
      break;
    case ExprKind::kNeg:
      text = "-" + PrintExpr(table, e.left, kUnaryLevel);
      level = kUnaryLevel;
      break;
    case ExprKind::kNot:
      text = "not " + PrintExpr(table, e.left, kNotLevel);
      level = kNotLevel;
      break;
    case ExprKind::kAdd:
    case ExprKind::kMul:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kTrueDiv:
    case ExprKind::kPow:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Infix infix = InfixOf(e.kind);
      level = infix.level;
      // Left-associative, so that the text parses back to the same tree.
      auto right_level = static_cast<Precedence>(level + 1);
      text = PrintExpr(table, e.left, level == kPowerLevel ? kAtom : level) + infix.text +
             PrintExpr(table, e.right, right_level);
    }
  }
  return level < outer ? "(" + text + ")" : text;
}

}  // namespace

std::optional<ExprKind> FunctionNamed(std::string_view name) {
  for (const auto& [known, kind] : kFunctions) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::string ExprTable::Print(Dim d) const {
  return d.is_constant() ? std::to_string(d.constant()) : PrintExpr(*this, d.expr, kLowest);
}

}  // namespace framefuse::ir
