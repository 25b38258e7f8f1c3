#include "backends/graph/equal_sizes.h"

#include <bit>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/dim_algebra.h"

namespace framefuse::ir {
namespace {

// Operations on integers that the algebra brings to its normal form.
constexpr std::pair<ExprKind, Dim (DimAlgebra::*)(Dim, Dim)> kByAlgebra[] = {
    {ExprKind::kAdd, &DimAlgebra::Add},
    {ExprKind::kMul, &DimAlgebra::Multiply},
    {ExprKind::kFloorDiv, &DimAlgebra::FloorDivide},
    {ExprKind::kMod, &DimAlgebra::Modulo},
    {ExprKind::kMin, &DimAlgebra::Minimum},
    {ExprKind::kMax, &DimAlgebra::Maximum},
};

class Joiner {
 public:
  explicit Joiner(const ExprTable& from) : from_(from), equal_to_(from.symbols().size()) {
    for (const Symbol& s : from.symbols()) table_.AddSymbol(s);
  }

  // Whether a symbol is known now by which other facts may read otherwise.
  bool Take(const Expr& fact) {
    if (fact.kind != ExprKind::kEq || from_[fact.left].type != NumberType::kInt) return false;
    if (from_[fact.right].type != NumberType::kInt) return false;
    const Dim left = Rebuilt(from_, Dim::OfExpr(fact.left)), right = Rebuilt(from_, Dim::OfExpr(fact.right));
    const Dim zero = DimAlgebra(table_).Subtract(left, right);
    const auto solution = DimAlgebra(table_).Solve(zero);
    if (!solution) {
      TakeAtom(zero, left, right);
      return false;
    }
    if (!IsKnownBy(table_.OfSymbol(solution->first), solution->second)) return false;
    equal_to_[static_cast<std::size_t>(solution->first)] = solution->second;
    known_.clear();
    const ExprTable now = table_;
    for (std::optional<Dim>& d : equal_to_) {
      if (d) d = Rebuilt(now, *d);
    }
    known_.clear();
    return true;
  }

  // A quotient that is 1 here: whoever reads such a size asks whether it is 1, and knows no facts.
  void TakeAtom(Dim zero, Dim left, Dim right) {
    if (const auto solution = DimAlgebra(table_).SolveForAtom(zero)) {
      if (!IsKnownBy(Dim::OfExpr(solution->first), solution->second)) return;
      equal_atoms_[solution->first] = solution->second;
    } else if (left.is_symbolic() && right.is_constant()) {
      equal_atoms_[left.expr] = right;
    } else if (left.is_constant() && right.is_symbolic()) {
      equal_atoms_[right.expr] = left;
    }
    known_.clear();
  }

  void Set(std::size_t symbol, std::int64_t number) { equal_to_[symbol] = Dim(number); }

  void Replace(Graph& graph) {
    for (Value& v : graph.values) {
      for (Dim& d : v.sizes) Replace(d);
      for (Dim& d : v.strides) Replace(d);
      Replace(v.offset);
    }
    for (Node& n : graph.nodes) {
      for (Arg& a : n.args) {
        for (Dim& d : a.dims) Replace(d);
        if (a.kind == Arg::Kind::kDimList) a = Arg::OfDims(std::move(a.dims));
        if (a.kind == Arg::Kind::kDim) a = ArgOf(a.dims[0]);
      }
    }
  }
  ExprTable Done() { return std::move(table_); }

  // In a table of its own that holds nothing else.
  void StartAnew() {
    ExprTable used;
    for (const Symbol& s : from_.symbols()) used.AddSymbol(s);
    const ExprTable solved = std::exchange(table_, std::move(used));
    known_.clear();
    // What it knew names expressions of the table before, and says nothing until it is in the new one.
    std::vector<std::optional<Dim>> equal_to(equal_to_.size());
    equal_to.swap(equal_to_);
    absl::flat_hash_map<ExprId, Dim> atoms;
    atoms.swap(equal_atoms_);
    for (std::size_t i = 0; i < equal_to.size(); ++i) {
      if (equal_to[i]) equal_to[i] = Rebuilt(solved, *equal_to[i]);
    }
    known_.clear();
    equal_to_ = std::move(equal_to);
    std::vector<std::pair<Dim, Dim>> equal;
    for (const auto& [atom, dim] : atoms) equal.emplace_back(Rebuilt(solved, Dim::OfExpr(atom)), Rebuilt(solved, dim));
    for (const auto& [atom, dim] : equal) {
      if (atom.is_symbolic()) equal_atoms_.emplace(atom.expr, dim);
    }
    known_.clear();
  }

 private:
  void Replace(Dim& d) {
    if (d.is_symbolic()) d = Rebuilt(from_, d);
  }

  Arg ArgOf(Dim d) const {
    if (d.is_constant() || table_[d.expr].kind != ExprKind::kConstant) return Arg::OfDim(d);
    const Expr& e = table_[d.expr];
    return Arg::Constant(NumberOf(e.value, e.type));
  }

  Dim Rebuilt(const ExprTable& from, Dim d) {
    if (d.is_constant()) return d;
    if (const auto known = known_.find(d.expr); known != known_.end()) return known->second;
    const Dim made = Settled(Make(from, from[d.expr]));
    known_.emplace(d.expr, made);
    return made;
  }

  // Whether `equal` is known when `d` is: a size of an input is not to wait for what the graph computes.
  bool IsKnownBy(Dim d, Dim equal) const { return table_.LastUnbacked(equal) <= table_.LastUnbacked(d); }

  // With what is known of its terms: the algebra may have taken apart what was one quotient.
  Dim Settled(Dim d) {
    if (d.is_constant()) return d;
    const Expr e = table_[d.expr];
    if (e.type != NumberType::kInt || (e.kind != ExprKind::kAdd && e.kind != ExprKind::kMul)) return Known(d);
    const Dim of_left = Dim::OfExpr(e.left), of_right = Dim::OfExpr(e.right);
    const Dim left = Settled(of_left), right = Settled(of_right);
    if (left == of_left && right == of_right) return Known(d);
    DimAlgebra algebra(table_);
    return Known(e.kind == ExprKind::kAdd ? algebra.Add(left, right) : algebra.Multiply(left, right));
  }

  // The number that it must be for the ranges of its symbols, or what it is equal to.
  Dim Known(Dim d) {
    if (d.is_constant() || table_[d.expr].type != NumberType::kInt) return d;
    if (const auto equal = equal_atoms_.find(d.expr); equal != equal_atoms_.end()) return equal->second;
    DimAlgebra algebra(table_);
    const std::optional<std::int64_t> low = algebra.Lowest(d), high = algebra.Highest(d);
    return low && high && *low == *high ? Dim(*low) : d;
  }

  Dim Make(const ExprTable& from, const Expr& e) {
    const auto part = [&](ExprId id) { return id == kNoExpr ? Dim() : Rebuilt(from, Dim::OfExpr(id)); };
    if (e.kind == ExprKind::kConstant) return Constant(e);
    if (e.kind == ExprKind::kSymbol) {
      const std::optional<Dim>& equal = equal_to_[static_cast<std::size_t>(e.value)];
      return equal ? *equal : table_.OfSymbol(static_cast<SymbolIndex>(e.value));
    }
    const Dim left = part(e.left), right = part(e.right);
    DimAlgebra algebra(table_);
    if (e.type != NumberType::kInt) return table_.Make(e.kind, left, right);
    if (e.kind == ExprKind::kNeg) return algebra.Negate(left);
    for (const auto& [kind, operation] : kByAlgebra) {
      if (kind == e.kind) return (algebra.*operation)(left, right);
    }
    return table_.Make(e.kind, left, right);
  }

  Dim Constant(const Expr& e) {
    switch (e.type) {
      case NumberType::kInt:
        return Dim(e.value);
      case NumberType::kFloat:
        return table_.FloatConstant(std::bit_cast<double>(e.value));
      case NumberType::kBool:
        break;
    }
    return table_.Make(e.value != 0 ? ExprKind::kEq : ExprKind::kNe, Dim(0), Dim(0));
  }

  const ExprTable& from_;
  ExprTable table_;
  std::vector<std::optional<Dim>> equal_to_;      // by symbol
  absl::flat_hash_map<ExprId, Dim> equal_atoms_;  // by expression of the table
  absl::flat_hash_map<ExprId, Dim> known_;
};

}  // namespace

void JoinEqualSizes(Graph& graph, absl::Span<const Dim> facts) {
  if (graph.exprs.symbols().empty()) return;
  const ExprTable recorded = std::move(graph.exprs);
  Joiner joiner(recorded);
  for (bool again = true; again;) {
    again = false;
    for (const Dim& fact : facts) again = (fact.is_symbolic() && joiner.Take(recorded[fact.expr])) || again;
  }
  joiner.StartAnew();
  joiner.Replace(graph);
  graph.exprs = joiner.Done();
}

void SetIntegers(Graph& graph, absl::Span<const std::int64_t> symbols) {
  const ExprTable recorded = std::move(graph.exprs);
  Joiner joiner(recorded);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (recorded.symbols()[i].type == NumberType::kInt) joiner.Set(i, symbols[i]);
  }
  joiner.Replace(graph);
  graph.exprs = joiner.Done();
}

}  // namespace framefuse::ir
