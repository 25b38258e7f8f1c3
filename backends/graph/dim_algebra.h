// DimAlgebra: sizes as sums of products, and what the ranges of their symbols say of them.
// Each result is in normal form: the products in order, equal ones joined. So two sizes that are equal as polynomials
// are one expression. Divisions, remainders, minima and maxima are atoms of a product.
// Invariant: an answer holds for all values of the symbols in their ranges (Symbol::min, Symbol::max).
#ifndef FRAMEFUSE_BACKENDS_GRAPH_DIM_ALGEBRA_H_
#define FRAMEFUSE_BACKENDS_GRAPH_DIM_ALGEBRA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/graph/dim.h"

namespace framefuse::ir {

class DimAlgebra {
 public:
  explicit DimAlgebra(ExprTable& table) : table_(table) {}

  Dim Add(Dim a, Dim b);
  Dim Subtract(Dim a, Dim b);
  Dim Multiply(Dim a, Dim b);
  Dim Negate(Dim a);
  Dim FloorDivide(Dim a, Dim b);  // as Python's // and %; a divisor of 0 is an atom that nobody evaluates
  Dim Modulo(Dim a, Dim b);
  Dim Minimum(Dim a, Dim b);
  Dim Maximum(Dim a, Dim b);

  // nullopt: nothing is known.
  std::optional<std::int64_t> Lowest(Dim d) const;
  std::optional<std::int64_t> Highest(Dim d) const;
  // kEq, kNe, kLt, kLe of two integers; nullopt: it depends on the symbols' values.
  std::optional<bool> Decide(ExprKind comparison, Dim a, Dim b);

  // `d` as factor * symbol + rest, if it is of that form.
  struct Linear {
    SymbolIndex symbol = -1;
    std::int64_t factor = 0;
    std::int64_t rest = 0;
  };
  std::optional<Linear> AsLinear(Dim d) const;
  // A symbol and what it is equal to where `zero` is 0; of several the one that is known last.
  std::optional<std::pair<SymbolIndex, Dim>> Solve(Dim zero);
  // The same for an expression of symbols (a quotient, a remainder) where no symbol can be solved for.
  std::optional<std::pair<ExprId, Dim>> SolveForAtom(Dim zero);

 private:
  using Product = std::vector<ExprId>;  // atoms, sorted; empty: the constant term
  using Sum = std::map<Product, std::int64_t>;
  struct Bounds {
    std::optional<std::int64_t> low, high;
  };

  Sum SumOf(Dim d) const;
  void AddTo(Sum* sum, Dim d, std::int64_t factor) const;
  static Sum Times(const Sum& a, const Sum& b);
  Dim Make(const Sum& sum);
  // What divides all products of both, taken out of them: atoms that are at least 1, and a number.
  std::pair<Product, std::int64_t> TakeCommonFactor(Sum* a, Sum* b) const;
  static std::optional<Sum> Quotient(const Sum& sum, const Product& atoms, std::int64_t factor, Sum* rest);
  Bounds BoundsOf(const Sum& sum) const;
  Bounds BoundsOfAtom(ExprId atom) const;
  bool Holds(ExprId atom, SymbolIndex symbol) const;
  bool HoldsAtom(ExprId expr, ExprId atom) const;
  Dim WithoutAtom(const Sum& sum, ExprId atom);  // what the atom is equal to where the sum is 0

  ExprTable& table_;
};

// The lowest value that the ranges of its symbols allow.
std::optional<std::int64_t> LowestOf(const ExprTable& table, Dim d);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_DIM_ALGEBRA_H_
