#include "backends/graph/expr_kinds.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace framefuse::ir {
namespace {

// As CPython's float_rem and _float_div_mod.
double ModuloFloats(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double FloorDivideFloats(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

// As CPython's float.__round__: the decimal that is nearest to the exact value, the even one of two.
double RoundToDigits(double a, double digits) {
  constexpr int kMostCharacters = 400;  // of any double with kMostDigits places
  constexpr double kMostDigits = 22;
  if (!std::isfinite(a) || digits < 0 || digits > kMostDigits) return a;
  std::array<char, kMostCharacters> text{};
  const auto end = std::to_chars(text.begin(), text.end(), a, std::chars_format::fixed, static_cast<int>(digits)).ptr;
  double rounded = a;
  std::from_chars(text.begin(), end, rounded);
  return rounded;
}

std::int64_t Sum(std::int64_t a, std::int64_t b, bool* fits) {
  std::int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) *fits = false;
  return r;
}

std::int64_t Product(std::int64_t a, std::int64_t b, bool* fits) {
  std::int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) *fits = false;
  return r;
}

// The processor traps where the quotient does not fit.
std::int64_t FloorDivide(std::int64_t a, std::int64_t b, bool* fits) {
  if (b == 0) return 0;
  if (b == -1) return Product(a, b, fits);
  const std::int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

std::int64_t Modulo(std::int64_t a, std::int64_t b, bool* fits) {
  return b == -1 ? 0 : a - FloorDivide(a, b, fits) * b;
}

// By less than nothing it is no integer.
std::int64_t IntPower(std::int64_t base, std::int64_t exponent, bool* fits) {
  if (exponent < 0) *fits = false;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  std::int64_t r = 1;
  for (std::int64_t i = 0; i < exponent && *fits; ++i) r = Product(r, base, fits);
  return r;
}

std::int64_t Itself(std::int64_t a, std::int64_t /*b*/, bool* /*fits*/) { return a; }
double ItselfOfFloats(double a, double /*b*/) { return a; }

template <double (*round)(double)>
std::int64_t Rounded(double v, double /*b*/, bool* fits) {
  const double whole = round(v);
  constexpr double kPastAll = 0x1p63;
  if (whole >= -kPastAll && whole < kPastAll) return static_cast<std::int64_t>(whole);
  *fits = false;
  return 0;
}
double Truncated(double v) { return std::trunc(v); }
double Floor(double v) { return std::floor(v); }
double Ceil(double v) { return std::ceil(v); }
double ToNearest(double v) { return std::nearbyint(v); }

constexpr ExprKindRow Leaf(ExprKind kind) {
  return {kind, Notation::kLeaf, "", kAtom, 0, false, std::nullopt, &Itself, &ItselfOfFloats, nullptr};
}

#define FF_INTEGERS(value)                                         \
  [](std::int64_t a, std::int64_t b, bool* fits) -> std::int64_t { \
    (void)a, (void)b, (void)fits;                                  \
    return value;                                                  \
  }
#define FF_FLOATS(value)             \
  [](double a, double b) -> double { \
    (void)a, (void)b;                \
    return value;                    \
  }

constexpr ExprKindRow Infix(ExprKind kind, const char* text, Precedence level, bool commutes,
                            decltype(ExprKindRow::of_integers) of_integers,
                            decltype(ExprKindRow::of_floats) of_floats) {
  return {kind, Notation::kInfix, text, level, 2, commutes, std::nullopt, of_integers, of_floats, nullptr};
}

constexpr ExprKindRow Call(ExprKind kind, const char* name, int operands, std::optional<NumberType> result,
                           decltype(ExprKindRow::of_floats) of_floats) {
  return {kind, Notation::kCall, name, kAtom, operands, false, result, &Itself, of_floats, nullptr};
}

template <double (*round)(double)>
constexpr ExprKindRow Rounding(ExprKind kind, const char* name) {
  return {kind, Notation::kCall, name, kAtom, 1, false, NumberType::kInt, &Itself, nullptr, &Rounded<round>};
}

constexpr ExprKindRow Extremum(ExprKind kind, const char* name, decltype(ExprKindRow::of_integers) of_integers,
                               decltype(ExprKindRow::of_floats) of_floats) {
  return {kind, Notation::kCall, name, kAtom, 2, true, std::nullopt, of_integers, of_floats, nullptr};
}

// Integers and floats are compared alike.
#define FF_TRUTH(kind, notation, text, level, operands, commutes, value)                             \
  {                                                                                                  \
    kind, notation, text, level, operands, commutes, NumberType::kBool, FF_INTEGERS(value), nullptr, \
        [](double a, double b, bool* fits) -> std::int64_t {                                         \
          (void)a, (void)b, (void)fits;                                                              \
          return value;                                                                              \
        }                                                                                            \
  }

constexpr ExprKindRow kRows[] = {
    Leaf(ExprKind::kConstant),
    Leaf(ExprKind::kSymbol),
    Infix(ExprKind::kAdd, " + ", kSumLevel, true, &Sum, FF_FLOATS(a + b)),
    Infix(ExprKind::kMul, "*", kProductLevel, true, &Product, FF_FLOATS(a* b)),
    Infix(ExprKind::kFloorDiv, " // ", kProductLevel, false, &FloorDivide, &FloorDivideFloats),
    Infix(ExprKind::kMod, " % ", kProductLevel, false, &Modulo, &ModuloFloats),
    Extremum(ExprKind::kMin, "min", FF_INTEGERS(std::min(a, b)), FF_FLOATS(b < a ? b : a)),
    Extremum(ExprKind::kMax, "max", FF_INTEGERS(std::max(a, b)), FF_FLOATS(b > a ? b : a)),
    {ExprKind::kNeg, Notation::kPrefix, "-", kUnaryLevel, 1, false, std::nullopt, FF_INTEGERS(Product(a, -1, fits)),
     FF_FLOATS(-a), nullptr},
    {ExprKind::kTrueDiv, Notation::kInfix, " / ", kProductLevel, 2, false, NumberType::kFloat, &Itself,
     FF_FLOATS(a / b), nullptr},
    Infix(ExprKind::kPow, "**", kPowerLevel, false, &IntPower, FF_FLOATS(std::pow(a, b))),
    Call(ExprKind::kToFloat, "float", 1, NumberType::kFloat, &ItselfOfFloats),
    Rounding<&Truncated>(ExprKind::kToInt, "int"),
    Rounding<&Floor>(ExprKind::kFloor, "floor"),
    Rounding<&Ceil>(ExprKind::kCeil, "ceil"),
    Rounding<&ToNearest>(ExprKind::kRound, "round"),
#define FF_FUNCTION(kind, name, value) Call(ExprKind::kind, name, 1, NumberType::kFloat, FF_FLOATS(value)),
#define FF_FUNCTION_OF_TWO(kind, name, value) Call(ExprKind::kind, name, 2, NumberType::kFloat, FF_FLOATS(value)),
#include "backends/graph/float_functions.def"
    FF_TRUTH(ExprKind::kEq, Notation::kInfix, " == ", kCompareLevel, 2, true, a == b),
    FF_TRUTH(ExprKind::kNe, Notation::kInfix, " != ", kCompareLevel, 2, true, a != b),
    FF_TRUTH(ExprKind::kLt, Notation::kInfix, " < ", kCompareLevel, 2, false, a < b),
    FF_TRUTH(ExprKind::kLe, Notation::kInfix, " <= ", kCompareLevel, 2, false, a <= b),
    FF_TRUTH(ExprKind::kAnd, Notation::kInfix, " and ", kAndLevel, 2, true, (a != 0) && (b != 0)),
    FF_TRUTH(ExprKind::kOr, Notation::kInfix, " or ", kOrLevel, 2, true, (a != 0) || (b != 0)),
    FF_TRUTH(ExprKind::kNot, Notation::kPrefix, "not ", kNotLevel, 1, false, a == 0),
};

constexpr bool IsComplete() {
  std::size_t at = 0;
  for (const ExprKindRow& row : kRows) {
    if (row.kind != static_cast<ExprKind>(at++)) return false;
  }
  return at == static_cast<std::size_t>(ExprKind::kNot) + 1;
}
static_assert(IsComplete(), "a row for each kind, in order");

}  // namespace

const ExprKindRow& RowOf(ExprKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

int OperandsOf(ExprKind kind) { return RowOf(kind).operands; }

std::optional<ExprKind> FunctionNamed(std::string_view name) {
  for (const ExprKindRow& row : kRows) {
    if (row.notation == Notation::kCall && row.text == name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace framefuse::ir
