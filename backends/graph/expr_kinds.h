// What is known of each kind of expression, a row each: how it is written, and what it computes of its operands.
// Invariant: each ExprKind has its row, in the order of the enumeration; one that is added without a row does not
// compile.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_EXPR_KINDS_H_
#define FRAMEFUSE_BACKENDS_GRAPH_EXPR_KINDS_H_

#include <cstdint>
#include <optional>

#include "backends/graph/dim.h"

namespace framefuse::ir {

enum class Notation : std::uint8_t { kLeaf, kInfix, kPrefix, kCall };

// Python's; a child that binds weaker is put in parentheses.
enum Precedence : std::uint8_t {
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

struct ExprKindRow {
  ExprKind kind;
  Notation notation;
  const char* text;  // the operator with its spaces, or the function's name
  Precedence level;
  int operands;
  bool commutes;
  std::optional<NumberType> result;  // nothing: a float if an operand is one, else an integer
  // What does not fit wraps around or is 0, and clears `fits`.
  std::int64_t (*of_integers)(std::int64_t a, std::int64_t b, bool* fits);
  // If an operand is a float, or the result is one: the one of the two that is there. One operand: `b` is nothing.
  double (*of_floats)(double a, double b);
  std::int64_t (*integer_of_floats)(double a, double b, bool* fits);
};

const ExprKindRow& RowOf(ExprKind kind);

inline bool IsPredicate(ExprKind kind) { return RowOf(kind).result == NumberType::kBool; }

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_EXPR_KINDS_H_
