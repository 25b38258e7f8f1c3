// Text of symbolic sizes: s0, 2*s0 + 1 and their like, printed and read.
#include <bit>
#include <string>

#include "backends/graph/expr_kinds.h"
#include "backends/graph/text_names.h"

namespace framefuse::ir {
namespace {

std::string PrintConstant(const Expr& e) {
  if (e.type == NumberType::kFloat) return PrintFloat(std::bit_cast<double>(e.value));
  if (e.type == NumberType::kBool) return e.value != 0 ? "True" : "False";
  return std::to_string(e.value);
}

std::string PrintExpr(const ExprTable& table, ExprId id, Precedence outer) {
  const Expr& e = table[id];
  const ExprKindRow& row = RowOf(e.kind);
  const auto operand = [&](ExprId of, Precedence level) { return PrintExpr(table, of, level); };
  std::string text;
  Precedence level = row.level;
  switch (row.notation) {
    case Notation::kLeaf:
      text = e.kind == ExprKind::kSymbol ? table.symbols()[static_cast<std::size_t>(e.value)].name : PrintConstant(e);
      if (text[0] == '-') level = kUnaryLevel;
      break;
    case Notation::kCall:
      text = row.text + ("(" + operand(e.left, kLowest));
      if (e.right != kNoExpr) text += ", " + operand(e.right, kLowest);
      text += ")";
      break;
    case Notation::kPrefix:
      text = row.text + operand(e.left, level);
      break;
    case Notation::kInfix:
      // Left-associative, so that the text parses back to the same tree.
      text = operand(e.left, level == kPowerLevel ? kAtom : level) + row.text +
             operand(e.right, static_cast<Precedence>(level + 1));
  }
  return level < outer ? "(" + text + ")" : text;
}

}  // namespace

std::string ExprTable::Print(Dim d) const {
  return d.is_constant() ? std::to_string(d.constant()) : PrintExpr(*this, d.expr, kLowest);
}

}  // namespace framefuse::ir
