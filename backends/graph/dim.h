// Dim and ExprTable: a size, stride or number of a graph, either a constant or a symbolic expression.
// Invariant: expressions are hash-consed in the graph's ExprTable and simplified on creation, so equal ids
// mean equal expressions; an operand's id is smaller than its user's. Integer unless the type says otherwise.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_DIM_H_
#define FRAMEFUSE_BACKENDS_GRAPH_DIM_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/check.h"

namespace framefuse::ir {

using ExprId = std::int32_t;
using SymbolIndex = std::int32_t;
inline constexpr ExprId kNoExpr = -1;

// A constant (`expr == kNoExpr`) or expression `expr` of the graph's table.
struct Dim {
  ExprId expr = kNoExpr;

  Dim() = default;
  Dim(std::int64_t v) : constant_(v) {}  // NOLINT(runtime/explicit)
  static Dim OfExpr(ExprId e) {
    Dim d;
    d.expr = e;
    return d;
  }
  bool is_constant() const { return expr == kNoExpr; }
  bool is_symbolic() const { return expr != kNoExpr; }
  // Who reads a number has asked before whether there is one.
  std::int64_t constant() const {
    FF_CHECK(is_constant()) << "a symbolic size was read as a number";
    return constant_;
  }
  bool Is(std::int64_t number) const { return is_constant() && constant_ == number; }
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  std::int64_t constant_ = 0;
};

enum class NumberType : std::uint8_t { kInt, kFloat, kBool };

// Symbolic integers that are no sizes lie between these two: what is made of two of them fits.
inline constexpr std::pair<std::int64_t, std::int64_t> kNumbers{-(std::int64_t{1} << 31), (std::int64_t{1} << 31) - 1};

// A symbol's value comes with each call (Plan::Run, `symbols`), or the graph computes it; a float's is its bit pattern.
struct Symbol {
  std::string name;  // s0, s1 …; floats f0 …
  NumberType type = NumberType::kInt;
  std::int64_t hint = 0;  // value when captured (bit pattern for floats)
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::int64_t divisor = 1;  // known to divide the value
  bool unbacked = false;     // no input's: the graph itself computes it (OutputRole::kUnbacked)
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

enum class ExprKind : std::uint8_t {
  kConstant,  // value (bit pattern for floats)
  kSymbol,    // value is the SymbolIndex
  kAdd,
  kMul,
  kFloorDiv,  // Python's //: rounds down
  kMod,       // Python's %: sign of the divisor
  kMin,
  kMax,
  kNeg,
  kTrueDiv,  // float result
  kPow,
  kToFloat,
  kToInt,  // truncates
  kFloor,  // of a float; integer results, as the two below
  kCeil,
  kRound,  // to the even one of two that are as near
#define FF_FUNCTION(kind, name, value) kind,
#include "backends/graph/float_functions.def"
  kEq,  // kBool results
  kNe,
  kLt,
  kLe,
  kAnd,
  kOr,
  kNot,
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  NumberType type = NumberType::kInt;
  ExprId left = kNoExpr;
  ExprId right = kNoExpr;
  std::int64_t value = 0;
  friend bool operator==(const Expr&, const Expr&) = default;
};

std::optional<ExprKind> FunctionNamed(std::string_view name);  // as an expression's text has it: min, sqrt …
// Of backends/graph/float_functions.def.
inline bool IsFloatFunction(ExprKind k) { return k >= ExprKind::kSqrt && k < ExprKind::kEq; }
int OperandsOf(ExprKind k);

class ExprTable {
 public:
  SymbolIndex AddSymbol(Symbol symbol);
  const std::vector<Symbol>& symbols() const { return symbols_; }
  Symbol& symbol(SymbolIndex i) { return symbols_[static_cast<std::size_t>(i)]; }

  Dim OfSymbol(SymbolIndex i);
  Dim Constant(std::int64_t v) { return Dim(v); }
  Dim FloatConstant(double v);
  // Folded and simplified: constants fold, x+0, x*1, x*0, sums and products are flattened and sorted.
  Dim Make(ExprKind kind, Dim left, Dim right = Dim());

  const Expr& operator[](ExprId id) const { return exprs_[static_cast<std::size_t>(id)]; }
  ExprId size() const { return static_cast<ExprId>(exprs_.size()); }
  NumberType TypeOf(Dim d) const { return d.is_constant() ? NumberType::kInt : (*this)[d.expr].type; }

  // Value under the given symbol values; floats and bools as bit pattern / 0 or 1.
  std::int64_t Evaluate(Dim d, absl::Span<const std::int64_t> symbols) const;
  std::int64_t Hint(Dim d) const;
  // Evaluates every expression once; values[id] for each id (what a plan does at the start of a call). False: an
  // integer did not fit.
  bool EvaluateAll(absl::Span<const std::int64_t> symbols, std::vector<std::int64_t>* values) const;
  std::string Print(Dim d) const;  // s0*2 + 1
  bool Mentions(Dim d, SymbolIndex symbol) const;
  // The unbacked symbol that came last of those that it is made of; -1: none.
  SymbolIndex LastUnbacked(Dim d) const;

 private:
  struct ExprHash {
    std::size_t operator()(const Expr& e) const;
  };
  ExprId Intern(const Expr& e);
  ExprId IdOf(Dim d);
  std::vector<Symbol> symbols_;
  std::vector<Expr> exprs_;
  absl::flat_hash_map<Expr, ExprId, ExprHash> index_;
};

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_DIM_H_
