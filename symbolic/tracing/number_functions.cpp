#include "symbolic/tracing/number_functions.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

namespace framefuse::tracing {

using ir::Dim;
using ir::ExprKind;

namespace {

// Quotients of integers up to here are rounded to no integer that they are not.
constexpr std::int64_t kMostExact = std::int64_t{1} << 52;

Dim PartOf(const ir::ExprTable& table, ir::ExprId id) {
  const ir::Expr& e = table[id];
  return e.kind == ExprKind::kConstant && e.type == ir::NumberType::kInt ? Dim(e.value) : Dim::OfExpr(id);
}

std::optional<double> FloatConstantOf(const ir::ExprTable& table, Dim d) {
  if (d.is_constant() || table[d.expr].kind != ExprKind::kConstant) return std::nullopt;
  if (table[d.expr].type != ir::NumberType::kFloat) return std::nullopt;
  return std::bit_cast<double>(table[d.expr].value);
}

struct Quotient {
  Dim dividend, divisor;  // the divisor is at least 1
};

// A factor that is a small integer by a power of two: products with it are exact.
std::optional<Quotient> AsQuotient(double factor) {
  constexpr double kMost = 1 << 20;
  double divisor = 1;
  while (divisor < kMost && factor * divisor != std::trunc(factor * divisor)) divisor *= 2;
  const double dividend = factor * divisor;
  if (dividend != std::trunc(dividend) || !(std::abs(dividend) <= kMost)) return std::nullopt;
  return Quotient{Dim(static_cast<std::int64_t>(dividend)), Dim(static_cast<std::int64_t>(divisor))};
}

// The integer that a float stands for everywhere.
std::optional<Dim> AsInteger(Sizes& sizes, Dim d) {
  if (!sizes.IsFloat(d)) return d;
  const ir::Expr e = sizes.Table()[d.expr];
  if (e.kind == ExprKind::kToFloat) return PartOf(sizes.Table(), e.left);
  const std::optional<double> number = FloatConstantOf(sizes.Table(), d);
  if (!number || *number != std::trunc(*number) || std::abs(*number) > 1 << 20) return std::nullopt;
  return Dim(static_cast<std::int64_t>(*number));
}

// n * 0.75, with one operand that is an integer.
std::optional<Quotient> ProductAsQuotient(Sizes& sizes, Dim left, Dim right) {
  if (FloatConstantOf(sizes.Table(), left)) std::swap(left, right);
  const std::optional<double> factor = FloatConstantOf(sizes.Table(), right);
  const std::optional<Dim> number = AsInteger(sizes, left);
  const std::optional<Quotient> ratio = factor && number ? AsQuotient(*factor) : std::nullopt;
  if (!ratio) return std::nullopt;
  return Quotient{sizes.Algebra().Multiply(ratio->dividend, *number), ratio->divisor};
}

// The quotient that a float is, if its nearest integers are those of the exact one.
std::optional<Quotient> ExactQuotient(Sizes& sizes, Dim d) {
  const ir::Expr e = sizes.Table()[d.expr];
  if (e.kind == ExprKind::kToFloat) return Quotient{PartOf(sizes.Table(), e.left), Dim(1)};
  if (e.kind != ExprKind::kTrueDiv && e.kind != ExprKind::kMul) return std::nullopt;
  const Dim left = PartOf(sizes.Table(), e.left), right = PartOf(sizes.Table(), e.right);
  std::optional<Quotient> made;
  if (e.kind == ExprKind::kMul) {
    made = ProductAsQuotient(sizes, left, right);
  } else if (const std::optional<Dim> dividend = AsInteger(sizes, left), divisor = AsInteger(sizes, right);
             dividend && divisor) {
    made = Quotient{*dividend, *divisor};
  }
  if (!made || sizes.HintOf(made->divisor) < 1 || std::abs(sizes.HintOf(made->dividend)) > kMostExact) {
    return std::nullopt;
  }
  const bool exact = sizes.Decide(ExprKind::kLe, Dim(1), made->divisor) &&
                     sizes.Decide(ExprKind::kLe, made->dividend, Dim(kMostExact)) &&
                     sizes.Decide(ExprKind::kLe, Dim(-kMostExact), made->dividend);
  return exact ? made : std::nullopt;
}

std::optional<Dim> OfQuotient(Sizes& sizes, NumberFunction function, const Quotient& q) {
  const auto floor = [&] { return sizes.Algebra().FloorDivide(q.dividend, q.divisor); };
  const auto ceil = [&] {
    ir::DimAlgebra algebra = sizes.Algebra();
    return algebra.FloorDivide(algebra.Add(q.dividend, algebra.Subtract(q.divisor, Dim(1))), q.divisor);
  };
  if (q.divisor.Is(1)) return q.dividend;
  if (function == NumberFunction::kFloor) return sizes.IfItFits(floor);
  if (function == NumberFunction::kCeil) return sizes.IfItFits(ceil);
  if (function != NumberFunction::kTruncate) return std::nullopt;
  const bool rounds_down = sizes.Decide(ExprKind::kLe, Dim(0), q.dividend);
  return rounds_down ? sizes.IfItFits(floor) : sizes.IfItFits(ceil);
}

std::optional<Dim> Rounded(Sizes& sizes, NumberFunction function, ExprKind kind, Dim d) {
  if (!sizes.IsFloat(d)) return d;
  if (const std::optional<Quotient> quotient = ExactQuotient(sizes, d)) {
    if (std::optional<Dim> whole = OfQuotient(sizes, function, *quotient)) return whole;
  }
  return sizes.Whole(kind, d);
}

Dim Zero(Sizes& sizes, Dim d) { return sizes.IsFloat(d) ? sizes.Table().FloatConstant(0) : Dim(0); }

// Of a positive number that is finite.
std::optional<Dim> Logarithm(Sizes& sizes, ExprKind kind, Dim d) {
  if (!IsExactAsFloat(sizes, d) || !sizes.Decide(ExprKind::kLt, Zero(sizes, d), d)) return std::nullopt;
  const Dim most = sizes.Table().FloatConstant(std::numeric_limits<double>::max());
  if (sizes.IsFloat(d) && !sizes.Decide(ExprKind::kLe, d, most)) return std::nullopt;
  return sizes.Table().Make(kind, d);
}

std::optional<Dim> SquareRoot(Sizes& sizes, Dim d) {
  if (!IsExactAsFloat(sizes, d) || !sizes.Decide(ExprKind::kLe, Zero(sizes, d), d)) return std::nullopt;
  return sizes.Table().Make(ExprKind::kSqrt, d);
}

// What Python raises for is no finite number, and it raises for nothing else. So one fact is enough, where the number
// may be infinite at all.
bool IsFinite(Sizes& sizes, Dim d) {
  ir::ExprTable& table = sizes.Table();
  return sizes.Decide(ExprKind::kLe, table.Make(ExprKind::kAbs, d),
                      table.FloatConstant(std::numeric_limits<double>::max()));
}

bool IsWhole(Sizes& sizes, Dim d) {
  if (!sizes.IsFloat(d)) return true;
  const std::optional<double> number = FloatConstantOf(sizes.Table(), d);
  return number && *number == std::trunc(*number);
}

// The largest that it is on either side of 0; infinite: nothing is known.
double MostOf(Sizes& sizes, Dim d, int depth = 0) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  constexpr int kDeepest = 8;
  if (d.is_constant()) return std::abs(static_cast<double>(d.constant()));
  if (depth > kDeepest) return kUnknown;
  const ir::Expr e = sizes.Table()[d.expr];
  const auto left = [&] { return MostOf(sizes, Dim::OfExpr(e.left), depth + 1); };
  const auto right = [&] { return MostOf(sizes, Dim::OfExpr(e.right), depth + 1); };
  if (e.type == ir::NumberType::kInt) return 0x1p63;
  if (e.kind == ExprKind::kConstant) return std::abs(std::bit_cast<double>(e.value));
  if (e.kind == ExprKind::kAdd) return left() + right();
  if (e.kind == ExprKind::kMul) return left() * right();
  if (e.kind == ExprKind::kNeg || e.kind == ExprKind::kToFloat || e.kind == ExprKind::kAbs) return left();
  if (e.kind == ExprKind::kSin || e.kind == ExprKind::kCos || e.kind == ExprKind::kTanh) return 1;
  if (e.kind != ExprKind::kTrueDiv) return kUnknown;
  const std::optional<double> divisor =
      sizes.Table()[e.right].kind == ExprKind::kConstant && sizes.Table()[e.right].type == ir::NumberType::kInt
          ? static_cast<double>(sizes.Table()[e.right].value)
          : FloatConstantOf(sizes.Table(), Dim::OfExpr(e.right));
  return divisor && std::abs(*divisor) >= 0x1p-64 ? left() / std::abs(*divisor) : kUnknown;
}

// Of any finite number it is one.
bool IsTotal(ExprKind function) {
  return function == ExprKind::kSin || function == ExprKind::kCos || function == ExprKind::kTanh ||
         function == ExprKind::kAtan || function == ExprKind::kErf || function == ExprKind::kErfc ||
         function == ExprKind::kAsinh || function == ExprKind::kCbrt;
}

}  // namespace

std::optional<Dim> ApplyFloatFunction(Sizes& sizes, ExprKind function, Dim a, Dim b) {
  const bool of_two = ir::OperandsOf(function) == 2;
  if (!IsExactAsFloat(sizes, a) || (of_two && !IsExactAsFloat(sizes, b))) return std::nullopt;
  const Dim made = of_two ? sizes.Table().Make(function, a, b) : sizes.Table().Make(function, a);
  if (function == ExprKind::kAbs) return made;
  constexpr double kSurelyFinite = 0x1p1000;
  if (IsTotal(function) && MostOf(sizes, a) <= kSurelyFinite) return made;
  return IsFinite(sizes, made) ? std::optional(made) : std::nullopt;
}

std::optional<Dim> Power(Sizes& sizes, Dim a, Dim b) {
  ir::ExprTable& table = sizes.Table();
  if (table.LastUnbacked(a) >= 0 || table.LastUnbacked(b) >= 0) return std::nullopt;  // which need not fit
  return sizes.Decide(ExprKind::kLe, Dim(0), b) ? sizes.IntegerPower(a, b) : FloatPower(sizes, a, b);
}

bool IsExactAsFloat(Sizes& sizes, Dim d) {
  if (sizes.IsFloat(d)) return true;
  const ir::DimAlgebra algebra = sizes.Algebra();
  const std::optional<std::int64_t> low = algebra.Lowest(d), high = algebra.Highest(d);
  const bool above = low && *low >= -kMostExact, below = high && *high <= kMostExact;
  if (std::abs(sizes.HintOf(d)) > kMostExact) return false;
  // No size of a tensor is larger.
  return (above || sizes.Decide(ExprKind::kLe, Dim(-kMostExact), d)) &&
         (below || sizes.Decide(ExprKind::kLe, d, Dim(kMostExact)));
}

std::optional<Dim> ApplyFunction(Sizes& sizes, NumberFunction function, Dim d) {
  switch (function) {
    case NumberFunction::kFloor:
      return Rounded(sizes, function, ExprKind::kFloor, d);
    case NumberFunction::kCeil:
      return Rounded(sizes, function, ExprKind::kCeil, d);
    case NumberFunction::kRound:
      return Rounded(sizes, function, ExprKind::kRound, d);
    case NumberFunction::kTruncate:
      return Rounded(sizes, function, ExprKind::kToInt, d);
    case NumberFunction::kSqrt:
      return SquareRoot(sizes, d);
    case NumberFunction::kWholeSqrt: {
      const std::optional<Dim> root = sizes.IsFloat(d) ? std::nullopt : SquareRoot(sizes, d);
      return root ? sizes.Whole(ExprKind::kToInt, *root) : std::nullopt;
    }
    case NumberFunction::kLog:
      return Logarithm(sizes, ExprKind::kLog, d);
    case NumberFunction::kLog2:
      return Logarithm(sizes, ExprKind::kLog2, d);
    case NumberFunction::kExp: {
      constexpr std::int64_t kMost = 700;  // more may overflow
      if (!IsExactAsFloat(sizes, d) || !sizes.Decide(ExprKind::kLe, d, Dim(kMost))) return std::nullopt;
      return sizes.Table().Make(ExprKind::kExp, d);
    }
  }
  return std::nullopt;
}

std::optional<Dim> FloatPower(Sizes& sizes, Dim a, Dim b) {
  ir::ExprTable& table = sizes.Table();
  if (!IsExactAsFloat(sizes, a) || !IsExactAsFloat(sizes, b)) return std::nullopt;
  const std::optional<double> base = FloatConstantOf(table, a);
  // A decay to a number of steps, which does not overflow.
  if (base && *base > 0 && *base <= 1 && sizes.Decide(ExprKind::kLe, Zero(sizes, b), b)) {
    return table.Make(ExprKind::kPow, a, b);
  }
  const std::optional<double> exponent =
      b.is_constant() ? static_cast<double>(b.constant()) : FloatConstantOf(table, b);
  // Of less than nothing only a whole power is a real number.
  const bool may_be_zero = exponent && *exponent > 0;
  if (!IsWhole(sizes, b) && !sizes.Decide(may_be_zero ? ExprKind::kLe : ExprKind::kLt, Zero(sizes, a), a)) {
    return std::nullopt;
  }
  const Dim as_float = sizes.IsFloat(a) ? a : table.Make(ExprKind::kToFloat, a);
  const Dim made = exponent ? table.Make(ExprKind::kPow, a, table.FloatConstant(*exponent))
                            : table.Make(ExprKind::kPow, sizes.IsFloat(b) ? a : as_float, b);
  // Such a power of any integer is in range.
  constexpr double kMostExponent = 16;
  const bool is_in_range = !sizes.IsFloat(a) && exponent && std::abs(*exponent) <= kMostExponent &&
                           (*exponent >= 0 || sizes.Decide(ExprKind::kNe, Zero(sizes, a), a));
  return is_in_range || IsFinite(sizes, made) ? std::optional(made) : std::nullopt;
}

}  // namespace framefuse::tracing
