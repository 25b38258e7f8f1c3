#include "backends/graph/dim.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/hash/hash.h"

namespace framefuse::ir {
namespace {

double AsDouble(std::int64_t bits) { return std::bit_cast<double>(bits); }
std::int64_t AsBits(double v) { return std::bit_cast<std::int64_t>(v); }

std::int64_t FloorDivide(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  std::int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

bool IsCommutative(ExprKind k) {
  switch (k) {
    case ExprKind::kAdd:
    case ExprKind::kMul:
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return true;
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kNeg:
    case ExprKind::kTrueDiv:
    case ExprKind::kPow:
    case ExprKind::kToFloat:
    case ExprKind::kToInt:
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kRound:
#define FF_FUNCTION(kind, name, value) case ExprKind::kind:
#include "backends/graph/float_functions.def"
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kNot:
      break;
  }
  return false;
}

bool IsRounding(ExprKind k) {
  return k == ExprKind::kToInt || k == ExprKind::kFloor || k == ExprKind::kCeil || k == ExprKind::kRound;
}

bool TakesTwoFloats(ExprKind k) {
#define FF_FUNCTION(kind, name, value)
#define FF_FUNCTION_OF_TWO(kind, name, value) \
  if (k == ExprKind::kind) return true;
#include "backends/graph/float_functions.def"
  return false;
}

// Its result is a float whatever its operands are.
bool MakesFloats(ExprKind k) { return k == ExprKind::kToFloat || k == ExprKind::kTrueDiv || IsFloatFunction(k); }

bool IsUnary(ExprKind k) { return OperandsOf(k) == 1; }

bool IsPredicate(ExprKind k) { return k >= ExprKind::kEq; }

NumberType ResultType(ExprKind kind, NumberType left, NumberType right) {
  if (IsPredicate(kind)) return NumberType::kBool;
  if (MakesFloats(kind)) return NumberType::kFloat;
  if (IsRounding(kind)) return NumberType::kInt;
  return left == NumberType::kFloat || right == NumberType::kFloat ? NumberType::kFloat : NumberType::kInt;
}

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

double FloatResult(ExprKind kind, double a, double b) {
  switch (kind) {
    case ExprKind::kAdd:
      return a + b;
    case ExprKind::kMul:
      return a * b;
    case ExprKind::kFloorDiv:
      return FloorDivideFloats(a, b);
    case ExprKind::kMod:
      return ModuloFloats(a, b);
    case ExprKind::kMin:
      return b < a ? b : a;
    case ExprKind::kMax:
      return b > a ? b : a;
    case ExprKind::kNeg:
      return -a;
    case ExprKind::kTrueDiv:
      return a / b;
    case ExprKind::kPow:
      return std::pow(a, b);
#define FF_FUNCTION(kind, name, value) \
  case ExprKind::kind:                 \
    return value;
#include "backends/graph/float_functions.def"
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kToFloat:
    case ExprKind::kToInt:
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kRound:
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kLt:
    case ExprKind::kLe:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kNot:
      break;
  }
  return a;
}

// 0 where that is no integer of 64 bits, which clears `fits`.
std::int64_t Rounded(ExprKind kind, double v, bool* fits) {
  const double whole = kind == ExprKind::kFloor   ? std::floor(v)
                       : kind == ExprKind::kCeil  ? std::ceil(v)
                       : kind == ExprKind::kRound ? std::nearbyint(v)
                                                  : std::trunc(v);
  constexpr double kPastAll = 0x1p63;
  if (whole >= -kPastAll && whole < kPastAll) return static_cast<std::int64_t>(whole);
  *fits = false;
  return 0;
}

// What does not fit wraps around, and clears `fits`.
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

// By less than nothing it is no integer.
std::int64_t IntPower(std::int64_t base, std::int64_t exponent, bool* fits) {
  if (exponent < 0) *fits = false;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  std::int64_t r = 1;
  for (std::int64_t i = 0; i < exponent && *fits; ++i) r = Product(r, base, fits);
  return r;
}

std::int64_t IntResult(ExprKind kind, std::int64_t a, std::int64_t b, bool* fits) {
  switch (kind) {
    case ExprKind::kAdd:
      return Sum(a, b, fits);
    case ExprKind::kMul:
      return Product(a, b, fits);
    case ExprKind::kFloorDiv:
      return FloorDivide(a, b);
    case ExprKind::kMod:
      return a - FloorDivide(a, b) * b;
    case ExprKind::kMin:
      return std::min(a, b);
    case ExprKind::kMax:
      return std::max(a, b);
    case ExprKind::kNeg:
      return Product(a, -1, fits);
    case ExprKind::kPow:
      return IntPower(a, b, fits);
    case ExprKind::kEq:
      return a == b;
    case ExprKind::kNe:
      return a != b;
    case ExprKind::kLt:
      return a < b;
    case ExprKind::kLe:
      return a <= b;
    case ExprKind::kAnd:
      return (a != 0) && (b != 0);
    case ExprKind::kOr:
      return (a != 0) || (b != 0);
    case ExprKind::kNot:
      return a == 0;
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kTrueDiv:
    case ExprKind::kToFloat:
    case ExprKind::kToInt:
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kRound:
#define FF_FUNCTION(kind, name, value) case ExprKind::kind:
#include "backends/graph/float_functions.def"
      break;
  }
  return a;
}

// One operation on operand values given as bits of their types.
std::int64_t Apply(ExprKind kind, std::int64_t a, NumberType ta, std::int64_t b, NumberType tb, bool* fits) {
  if (IsRounding(kind)) return ta == NumberType::kFloat ? Rounded(kind, AsDouble(a), fits) : a;
  bool floats = ta == NumberType::kFloat || tb == NumberType::kFloat || MakesFloats(kind);
  if (!floats) return IntResult(kind, a, b, fits);
  double x = ta == NumberType::kFloat ? AsDouble(a) : static_cast<double>(a);
  double y = tb == NumberType::kFloat ? AsDouble(b) : static_cast<double>(b);
  switch (kind) {
    case ExprKind::kEq:
      return x == y;
    case ExprKind::kNe:
      return x != y;
    case ExprKind::kLt:
      return x < y;
    case ExprKind::kLe:
      return x <= y;
    case ExprKind::kAnd:
      return x != 0 && y != 0;
    case ExprKind::kOr:
      return x != 0 || y != 0;
    case ExprKind::kNot:
      return x == 0;
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kAdd:
    case ExprKind::kMul:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kMin:
    case ExprKind::kMax:
    case ExprKind::kNeg:
    case ExprKind::kTrueDiv:
    case ExprKind::kPow:
    case ExprKind::kToFloat:
    case ExprKind::kToInt:
    case ExprKind::kFloor:
    case ExprKind::kCeil:
    case ExprKind::kRound:
#define FF_FUNCTION(kind, name, value) case ExprKind::kind:
#include "backends/graph/float_functions.def"
      break;
  }
  return AsBits(FloatResult(kind, x, y));
}

}  // namespace

int OperandsOf(ExprKind k) {
  if (k == ExprKind::kConstant || k == ExprKind::kSymbol) return 0;
  if (k == ExprKind::kNeg || k == ExprKind::kNot || k == ExprKind::kToFloat || IsRounding(k)) return 1;
  return IsFloatFunction(k) && !TakesTwoFloats(k) ? 1 : 2;
}

std::size_t ExprTable::ExprHash::operator()(const Expr& e) const {
  return absl::HashOf(static_cast<int>(e.kind), static_cast<int>(e.type), e.left, e.right, e.value);
}

ExprId ExprTable::Intern(const Expr& e) {
  auto [it, inserted] = index_.try_emplace(e, size());
  if (inserted) exprs_.push_back(e);
  return it->second;
}

ExprId ExprTable::IdOf(Dim d) {
  if (d.is_symbolic()) return d.expr;
  return Intern({ExprKind::kConstant, NumberType::kInt, kNoExpr, kNoExpr, d.constant()});
}

SymbolIndex ExprTable::AddSymbol(Symbol symbol) {
  symbols_.push_back(std::move(symbol));
  return static_cast<SymbolIndex>(symbols_.size() - 1);
}

Dim ExprTable::OfSymbol(SymbolIndex i) {
  return Dim::OfExpr(Intern({ExprKind::kSymbol, symbols_[static_cast<std::size_t>(i)].type, kNoExpr, kNoExpr, i}));
}

Dim ExprTable::FloatConstant(double v) {
  return Dim::OfExpr(Intern({ExprKind::kConstant, NumberType::kFloat, kNoExpr, kNoExpr, AsBits(v)}));
}

Dim ExprTable::Make(ExprKind kind, Dim left, Dim right) {
  NumberType lt = TypeOf(left);
  NumberType rt = TypeOf(right);
  NumberType type = ResultType(kind, lt, IsUnary(kind) ? lt : rt);
  auto constant = [&](Dim d) { return d.is_constant() || (*this)[d.expr].kind == ExprKind::kConstant; };
  auto bits = [&](Dim d) { return d.is_constant() ? d.constant() : (*this)[d.expr].value; };
  if (constant(left) && (IsUnary(kind) || constant(right))) {
    bool fits = true;  // sizes do, and whoever takes other integers looks at their result
    std::int64_t v = Apply(kind, bits(left), lt, bits(right), rt, &fits);
    if (type == NumberType::kInt) return Dim(v);
    return Dim::OfExpr(Intern({ExprKind::kConstant, type, kNoExpr, kNoExpr, v}));
  }
  if (type == NumberType::kInt && !IsUnary(kind)) {
    if (IsCommutative(kind) && left.is_constant()) std::swap(left, right);  // constants to the right
    if (right.is_constant()) {
      std::int64_t c = right.constant();
      if (kind == ExprKind::kAdd && c == 0) return left;
      if ((kind == ExprKind::kMul || kind == ExprKind::kFloorDiv) && c == 1) return left;
      if (kind == ExprKind::kMul && c == 0) return Dim(0);
      if (kind == ExprKind::kMod && c == 1) return Dim(0);
      // (x + a) + b, (x * a) * b
      const Expr& inner = (*this)[left.expr];
      bool same = inner.kind == kind && (kind == ExprKind::kAdd || kind == ExprKind::kMul);
      if (same && inner.type == NumberType::kInt && (*this)[inner.right].kind == ExprKind::kConstant) {
        bool fits = true;
        std::int64_t folded = IntResult(kind, (*this)[inner.right].value, c, &fits);
        if (fits) return Make(kind, Dim::OfExpr(inner.left), Dim(folded));
      }
    } else if (IsCommutative(kind) && left.is_symbolic() && right.expr < left.expr) {
      std::swap(left, right);
    }
    if (left == right && kind == ExprKind::kFloorDiv) return Dim(1);
    if (left == right && (kind == ExprKind::kMin || kind == ExprKind::kMax)) return left;
  }
  if (kind == ExprKind::kEq && left == right && lt == NumberType::kInt) {
    return Dim::OfExpr(Intern({ExprKind::kConstant, NumberType::kBool, kNoExpr, kNoExpr, 1}));
  }
  ExprId l = IdOf(left);
  ExprId r = IsUnary(kind) ? kNoExpr : IdOf(right);
  return Dim::OfExpr(Intern({kind, type, l, r, 0}));
}

bool ExprTable::EvaluateAll(absl::Span<const std::int64_t> symbols, std::vector<std::int64_t>* values) const {
  bool fits = true;
  values->resize(exprs_.size());
  for (std::size_t i = 0; i < exprs_.size(); ++i) {
    const Expr& e = exprs_[i];
    std::int64_t& v = (*values)[i];
    if (e.kind == ExprKind::kConstant) {
      v = e.value;
    } else if (e.kind == ExprKind::kSymbol) {
      v = symbols[static_cast<std::size_t>(e.value)];
    } else {
      auto at = [&](ExprId id) { return id == kNoExpr ? 0 : (*values)[static_cast<std::size_t>(id)]; };
      auto type = [&](ExprId id) { return id == kNoExpr ? NumberType::kInt : (*this)[id].type; };
      v = Apply(e.kind, at(e.left), type(e.left), at(e.right), type(e.right), &fits);
    }
  }
  return fits;
}

std::int64_t ExprTable::Evaluate(Dim d, absl::Span<const std::int64_t> symbols) const {
  if (d.is_constant()) return d.constant();
  const Expr& e = (*this)[d.expr];
  if (e.kind == ExprKind::kConstant) return e.value;
  if (e.kind == ExprKind::kSymbol) return symbols[static_cast<std::size_t>(e.value)];
  std::int64_t l = Evaluate(Dim::OfExpr(e.left), symbols);
  std::int64_t r = e.right == kNoExpr ? 0 : Evaluate(Dim::OfExpr(e.right), symbols);
  bool fits = true;
  return Apply(e.kind, l, (*this)[e.left].type, r, e.right == kNoExpr ? NumberType::kInt : (*this)[e.right].type,
               &fits);
}

bool ExprTable::Mentions(Dim d, SymbolIndex symbol) const {
  if (d.is_constant()) return false;
  const Expr& e = (*this)[d.expr];
  if (e.kind == ExprKind::kSymbol) return e.value == symbol;
  const auto part = [&](ExprId id) { return id != kNoExpr && Mentions(Dim::OfExpr(id), symbol); };
  return part(e.left) || part(e.right);
}

SymbolIndex ExprTable::LastUnbacked(Dim d) const {
  if (d.is_constant()) return -1;
  const Expr& e = (*this)[d.expr];
  if (e.kind == ExprKind::kSymbol) {
    return symbols_[static_cast<std::size_t>(e.value)].unbacked ? static_cast<SymbolIndex>(e.value) : -1;
  }
  const auto of = [&](ExprId id) { return id == kNoExpr ? -1 : LastUnbacked(Dim::OfExpr(id)); };
  return std::max(of(e.left), of(e.right));
}

std::int64_t ExprTable::Hint(Dim d) const {
  std::vector<std::int64_t> hints;
  hints.reserve(symbols_.size());
  for (const Symbol& s : symbols_) hints.push_back(s.hint);
  return Evaluate(d, hints);
}

}  // namespace framefuse::ir
