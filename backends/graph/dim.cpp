#include "backends/graph/dim.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/hash/hash.h"
#include "backends/graph/expr_kinds.h"

namespace framefuse::ir {
namespace {

double AsDouble(std::int64_t bits) { return std::bit_cast<double>(bits); }
std::int64_t AsBits(double v) { return std::bit_cast<std::int64_t>(v); }

bool IsUnary(ExprKind k) { return RowOf(k).operands == 1; }

NumberType ResultType(ExprKind kind, NumberType left, NumberType right) {
  const bool any_float = left == NumberType::kFloat || right == NumberType::kFloat;
  return RowOf(kind).result.value_or(any_float ? NumberType::kFloat : NumberType::kInt);
}

// One operation on operand values given as bits of their types.
std::int64_t Apply(ExprKind kind, std::int64_t a, NumberType ta, std::int64_t b, NumberType tb, bool* fits) {
  const ExprKindRow& row = RowOf(kind);
  const bool floats = ta == NumberType::kFloat || tb == NumberType::kFloat || row.result == NumberType::kFloat;
  if (!floats) return row.of_integers(a, b, fits);
  const double x = ta == NumberType::kFloat ? AsDouble(a) : static_cast<double>(a);
  const double y = tb == NumberType::kFloat ? AsDouble(b) : static_cast<double>(b);
  if (row.integer_of_floats != nullptr) return row.integer_of_floats(x, y, fits);
  return AsBits(row.of_floats(x, y));
}

}  // namespace

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
    if (RowOf(kind).commutes && left.is_constant()) std::swap(left, right);  // constants to the right
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
        std::int64_t folded = RowOf(kind).of_integers((*this)[inner.right].value, c, &fits);
        if (fits) return Make(kind, Dim::OfExpr(inner.left), Dim(folded));
      }
    } else if (RowOf(kind).commutes && left.is_symbolic() && right.expr < left.expr) {
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
