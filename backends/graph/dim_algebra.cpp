#include "backends/graph/dim_algebra.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace framefuse::ir {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// Nothing where it does not fit.
std::optional<std::int64_t> Times(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  std::int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

std::optional<std::int64_t> Plus(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  std::int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

std::int64_t FloorQuotient(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// What is left of `product` without `atoms`; nothing: not all of them are in it.
std::optional<std::vector<ExprId>> Without(const std::vector<ExprId>& product, const std::vector<ExprId>& atoms) {
  if (!std::includes(product.begin(), product.end(), atoms.begin(), atoms.end())) return std::nullopt;
  std::vector<ExprId> rest;
  std::set_difference(product.begin(), product.end(), atoms.begin(), atoms.end(), std::back_inserter(rest));
  return rest;
}

}  // namespace

void DimAlgebra::AddTo(Sum* sum, Dim d, std::int64_t factor) const {
  const auto add = [&](const Product& product, std::int64_t f) {
    if ((*sum)[product] += f; (*sum)[product] == 0) sum->erase(product);
  };
  if (d.is_constant()) {
    add({}, d.constant() * factor);
    return;
  }
  const Expr& e = table_[d.expr];
  if (e.kind == ExprKind::kConstant) {
    add({}, e.value * factor);
  } else if (e.kind == ExprKind::kAdd && e.type == NumberType::kInt) {
    AddTo(sum, Dim::OfExpr(e.left), factor);
    AddTo(sum, Dim::OfExpr(e.right), factor);
  } else if (e.kind == ExprKind::kNeg && e.type == NumberType::kInt) {
    AddTo(sum, Dim::OfExpr(e.left), -factor);
  } else if (e.kind == ExprKind::kMul && e.type == NumberType::kInt) {
    for (const auto& [product, f] : Times(SumOf(Dim::OfExpr(e.left)), SumOf(Dim::OfExpr(e.right)))) {
      add(product, f * factor);
    }
  } else {
    add({d.expr}, factor);
  }
}

DimAlgebra::Sum DimAlgebra::SumOf(Dim d) const {
  Sum sum;
  AddTo(&sum, d, 1);
  return sum;
}

DimAlgebra::Sum DimAlgebra::Times(const Sum& a, const Sum& b) {
  Sum result;
  for (const auto& [left, f] : a) {
    for (const auto& [right, g] : b) {
      Product product;
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(product));
      if ((result[product] += f * g) == 0) result.erase(product);
    }
  }
  return result;
}

// The constant comes last, as people write it.
Dim DimAlgebra::Make(const Sum& sum) {
  Dim result(0);
  bool first = true;
  const auto add = [&](const Product& product, std::int64_t factor) {
    Dim term(factor);
    if (!product.empty()) {
      term = Dim::OfExpr(product[0]);
      for (std::size_t i = 1; i < product.size(); ++i) {
        term = table_.Make(ExprKind::kMul, term, Dim::OfExpr(product[i]));
      }
      term = table_.Make(ExprKind::kMul, term, Dim(factor));
    }
    result = first ? term : table_.Make(ExprKind::kAdd, result, term);
    first = false;
  };
  for (const auto& [product, factor] : sum) {
    if (!product.empty()) add(product, factor);
  }
  if (const auto constant = sum.find({}); constant != sum.end()) add({}, constant->second);
  return result;
}

Dim DimAlgebra::Add(Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) return Dim(a.constant() + b.constant());
  Sum sum = SumOf(a);
  AddTo(&sum, b, 1);
  return Make(sum);
}

Dim DimAlgebra::Subtract(Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) return Dim(a.constant() - b.constant());
  Sum sum = SumOf(a);
  AddTo(&sum, b, -1);
  return Make(sum);
}

Dim DimAlgebra::Multiply(Dim a, Dim b) {
  if (a.is_constant() && b.is_constant()) return Dim(a.constant() * b.constant());
  return Make(Times(SumOf(a), SumOf(b)));
}

Dim DimAlgebra::Negate(Dim a) { return Subtract(Dim(0), a); }

// Of each product the part that is a multiple of `factor` times `atoms`; the others come to `rest`.
std::optional<DimAlgebra::Sum> DimAlgebra::Quotient(const Sum& sum, const Product& atoms, std::int64_t factor,
                                                    Sum* rest) {
  Sum quotient;
  for (const auto& [product, f] : sum) {
    const std::optional<Product> without = Without(product, atoms);
    if (without && f % factor == 0) {
      quotient[*without] = f / factor;
    } else {
      (*rest)[product] = f;
    }
  }
  return quotient;
}

std::pair<DimAlgebra::Product, std::int64_t> DimAlgebra::TakeCommonFactor(Sum* a, Sum* b) const {
  std::optional<Product> common;
  std::int64_t number = 0;
  for (const Sum* sum : {a, b}) {
    for (const auto& [product, factor] : *sum) {
      number = std::gcd(number, factor);
      Product both;
      if (common) {
        std::set_intersection(common->begin(), common->end(), product.begin(), product.end(), std::back_inserter(both));
      }
      common = common ? std::move(both) : product;
    }
  }
  if (!common || number == 0) return {{}, 1};
  std::erase_if(*common, [&](ExprId atom) { return BoundsOfAtom(atom).low.value_or(0) < 1; });
  for (Sum* sum : {a, b}) {
    Sum left;
    for (const auto& [product, factor] : *sum) left[*Without(product, *common)] = factor / number;
    *sum = std::move(left);
  }
  return {*common, number};
}

Dim DimAlgebra::FloorDivide(Dim a, Dim b) {
  Sum divisor = SumOf(b);
  Sum dividend = SumOf(a);
  const bool positive = Lowest(b).value_or(0) > 0;
  if (positive && dividend == divisor) return Dim(1);
  if (positive) (void)TakeCommonFactor(&dividend, &divisor);
  if (positive && divisor.size() == 1) {
    const auto& [atoms, factor] = *divisor.begin();
    Sum rest;
    const Sum quotient = *Quotient(dividend, atoms, factor, &rest);
    const Bounds bounds = BoundsOf(rest);
    const bool within = bounds.low.value_or(-1) >= 0 && atoms.empty() && bounds.high.value_or(factor) < factor;
    if (rest.empty() || within) return Make(quotient);
    const Dim remaining = Make(rest);
    if (remaining.is_constant() && atoms.empty()) {
      return Add(Make(quotient), Dim(FloorQuotient(remaining.constant(), factor)));
    }
    return Add(Make(quotient), table_.Make(ExprKind::kFloorDiv, remaining, Make(divisor)));
  }
  return table_.Make(ExprKind::kFloorDiv, Make(dividend), Make(divisor));
}

Dim DimAlgebra::Modulo(Dim a, Dim b) {
  Sum divisor = SumOf(b);
  Sum dividend = SumOf(a);
  const bool positive = Lowest(b).value_or(0) > 0;
  if (positive && dividend == divisor) return Dim(0);
  if (positive && divisor.size() == 1) {
    const auto& [atoms, factor] = *divisor.begin();
    Sum rest;
    (void)Quotient(dividend, atoms, factor, &rest);
    const Bounds bounds = BoundsOf(rest);
    const bool within = bounds.low.value_or(-1) >= 0 && atoms.empty() && bounds.high.value_or(factor) < factor;
    if (rest.empty()) return Dim(0);
    if (within) return Make(rest);
    // (k a) % (k b) is k (a % b).
    const auto [common, number] = TakeCommonFactor(&rest, &divisor);
    const Dim atom = table_.Make(ExprKind::kMod, Make(rest), Make(divisor));
    return Multiply(Make(Sum{{common, number}}), atom);
  }
  return table_.Make(ExprKind::kMod, Make(dividend), Make(divisor));
}

Dim DimAlgebra::Minimum(Dim a, Dim b) {
  const std::optional<bool> less = Decide(ExprKind::kLe, a, b);
  if (less) return *less ? a : b;
  return table_.Make(ExprKind::kMin, Make(SumOf(a)), Make(SumOf(b)));
}

Dim DimAlgebra::Maximum(Dim a, Dim b) {
  const std::optional<bool> less = Decide(ExprKind::kLe, a, b);
  if (less) return *less ? b : a;
  return table_.Make(ExprKind::kMax, Make(SumOf(a)), Make(SumOf(b)));
}

// ---------------------------------------------------------------- ranges

namespace {
template <typename Bounds>
Bounds OfMinimum(const Bounds& left, const Bounds& right) {
  Bounds bounds;
  if (left.low && right.low) bounds.low = std::min(*left.low, *right.low);
  if (left.high || right.high) {
    bounds.high = std::min(left.high.value_or(kUnbounded), right.high.value_or(kUnbounded));
  }
  return bounds;
}

template <typename Bounds>
Bounds OfMaximum(const Bounds& left, const Bounds& right) {
  Bounds bounds;
  if (left.low || right.low) bounds.low = std::max(left.low.value_or(-kUnbounded), right.low.value_or(-kUnbounded));
  if (left.high && right.high) bounds.high = std::max(*left.high, *right.high);
  return bounds;
}
}  // namespace

DimAlgebra::Bounds DimAlgebra::BoundsOfAtom(ExprId atom) const {
  const Expr& e = table_[atom];
  if (e.kind == ExprKind::kSymbol) {
    const Symbol& s = table_.symbols()[static_cast<std::size_t>(e.value)];
    return {s.min, s.max == kUnbounded ? std::nullopt : std::optional(s.max)};
  }
  // Whoever makes an integer of a float has asked whether it is one of kNumbers.
  const bool one_operand = e.left != kNoExpr && e.right == kNoExpr;
  if (e.type == NumberType::kInt && one_operand && table_[e.left].type == NumberType::kFloat) {
    return {kNumbers.first, kNumbers.second};
  }
  if (e.left == kNoExpr || e.right == kNoExpr || e.type != NumberType::kInt) return {};
  const Bounds left = BoundsOf(SumOf(Dim::OfExpr(e.left)));
  const Bounds right = BoundsOf(SumOf(Dim::OfExpr(e.right)));
  if (e.kind == ExprKind::kMin) return OfMinimum(left, right);
  if (e.kind == ExprKind::kMax) return OfMaximum(left, right);
  // By at least 1: what is not negative does not grow.
  if (right.low.value_or(0) < 1) return {};
  if (e.kind == ExprKind::kMod) return {0, Plus(right.high, -1)};
  if (e.kind != ExprKind::kFloorDiv) return {};
  const bool constant = right.low == right.high;
  Bounds bounds;
  if (left.low && constant) bounds.low = FloorQuotient(*left.low, *right.low);
  if (left.low && !constant && *left.low >= 0) bounds.low = 0;
  if (left.high && *left.high >= 0) bounds.high = FloorQuotient(*left.high, *right.low);
  return bounds;
}

// Products of what is not negative grow with each factor; of others nothing is said.
DimAlgebra::Bounds DimAlgebra::BoundsOf(const Sum& sum) const {
  Bounds total{0, 0};
  for (const auto& [product, factor] : sum) {
    Bounds bounds{1, 1};
    if (product.size() == 1) {
      bounds = BoundsOfAtom(product[0]);
    } else {
      for (const ExprId atom : product) {
        const Bounds of = BoundsOfAtom(atom);
        if (of.low.value_or(-1) < 0) return {};
        bounds = {ir::Times(bounds.low, of.low), ir::Times(bounds.high, of.high)};
      }
    }
    if (factor < 0) std::swap(bounds.low, bounds.high);
    total.low = Plus(total.low, ir::Times(bounds.low, factor));
    total.high = Plus(total.high, ir::Times(bounds.high, factor));
  }
  return total;
}

std::optional<std::int64_t> DimAlgebra::Lowest(Dim d) const {
  return d.is_constant() ? d.constant() : BoundsOf(SumOf(d)).low;
}

std::optional<std::int64_t> DimAlgebra::Highest(Dim d) const {
  return d.is_constant() ? d.constant() : BoundsOf(SumOf(d)).high;
}

std::optional<bool> DimAlgebra::Decide(ExprKind comparison, Dim a, Dim b) {
  // Torch's "to the end": no size comes near it.
  if (b.is_constant() && b.constant() == kUnbounded && a.is_symbolic()) return comparison != ExprKind::kEq;
  Sum difference = SumOf(a);
  AddTo(&difference, b, -1);
  const Bounds bounds = BoundsOf(difference);
  const std::int64_t low = bounds.low.value_or(-kUnbounded), high = bounds.high.value_or(kUnbounded);
  if (comparison == ExprKind::kLt)
    return high < 0 ? std::optional(true) : low >= 0 ? std::optional(false) : std::nullopt;
  if (comparison == ExprKind::kLe)
    return high <= 0 ? std::optional(true) : low > 0 ? std::optional(false) : std::nullopt;
  const bool equal_if = comparison == ExprKind::kEq;
  if (low == 0 && high == 0) return equal_if;
  if (low > 0 || high < 0) return !equal_if;
  return std::nullopt;
}

std::optional<DimAlgebra::Linear> DimAlgebra::AsLinear(Dim d) const {
  Linear linear;
  for (const auto& [product, factor] : SumOf(d)) {
    if (product.empty()) {
      linear.rest = factor;
    } else if (product.size() != 1 || linear.symbol >= 0 || table_[product[0]].kind != ExprKind::kSymbol) {
      return std::nullopt;
    } else {
      linear.symbol = static_cast<SymbolIndex>(table_[product[0]].value);
      linear.factor = factor;
    }
  }
  return linear.symbol >= 0 ? std::optional(linear) : std::nullopt;
}

bool DimAlgebra::Holds(ExprId atom, SymbolIndex symbol) const {
  const Expr& e = table_[atom];
  if (e.kind == ExprKind::kSymbol) return e.value == symbol;
  return (e.left != kNoExpr && Holds(e.left, symbol)) || (e.right != kNoExpr && Holds(e.right, symbol));
}

std::optional<std::pair<SymbolIndex, Dim>> DimAlgebra::Solve(Dim zero) {
  const Sum sum = SumOf(zero);
  const auto is_elsewhere = [&](const Product& own, SymbolIndex symbol) {
    return std::any_of(sum.begin(), sum.end(), [&](const auto& term) {
      const auto holds = [&](ExprId atom) { return Holds(atom, symbol); };
      return term.first != own && std::any_of(term.first.begin(), term.first.end(), holds);
    });
  };
  // What the graph computes comes after all that a call brings.
  const auto comes_after = [&](SymbolIndex a, SymbolIndex b) {
    const auto rank = [&](SymbolIndex s) {
      return std::pair(s >= 0 && table_.symbols()[static_cast<std::size_t>(s)].unbacked, s);
    };
    return rank(a) > rank(b);
  };
  SymbolIndex solved = -1;
  ExprId atom = kNoExpr;
  for (const auto& [product, factor] : sum) {
    if (product.size() != 1 || (factor != 1 && factor != -1)) continue;
    const Expr& e = table_[product[0]];
    const auto symbol = static_cast<SymbolIndex>(e.value);
    if (e.kind != ExprKind::kSymbol || !comes_after(symbol, solved) || is_elsewhere(product, symbol)) continue;
    solved = symbol;
    atom = product[0];
  }
  if (solved < 0) return std::nullopt;
  return std::pair(solved, WithoutAtom(sum, atom));
}

Dim DimAlgebra::WithoutAtom(const Sum& sum, ExprId atom) {
  Sum rest;
  std::int64_t own = 1;
  for (const auto& [product, factor] : sum) {
    if (product.size() == 1 && product[0] == atom) {
      own = factor;
    } else {
      rest[product] = factor;
    }
  }
  for (auto& [product, factor] : rest) factor *= -own;
  return Make(rest);
}

bool DimAlgebra::HoldsAtom(ExprId expr, ExprId atom) const {
  if (expr == kNoExpr || expr < atom) return false;  // an operand's id is smaller than its user's
  return expr == atom || HoldsAtom(table_[expr].left, atom) || HoldsAtom(table_[expr].right, atom);
}

std::optional<std::pair<ExprId, Dim>> DimAlgebra::SolveForAtom(Dim zero) {
  const Sum sum = SumOf(zero);
  ExprId solved = kNoExpr;
  for (const auto& [product, factor] : sum) {
    if (product.size() != 1 || (factor != 1 && factor != -1) || product[0] <= solved) continue;
    const bool is_elsewhere = std::any_of(sum.begin(), sum.end(), [&](const auto& term) {
      const auto holds = [&](ExprId atom) { return HoldsAtom(atom, product[0]); };
      return term.first != product && std::any_of(term.first.begin(), term.first.end(), holds);
    });
    if (!is_elsewhere) solved = product[0];
  }
  if (solved == kNoExpr) return std::nullopt;
  return std::pair(solved, WithoutAtom(sum, solved));
}

std::optional<std::int64_t> LowestOf(const ExprTable& table, Dim d) {
  if (d.is_constant()) return d.constant();
  return DimAlgebra(const_cast<ExprTable&>(table)).Lowest(d);  // which only reads
}

}  // namespace framefuse::ir
