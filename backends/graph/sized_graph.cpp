#include "backends/graph/sized_graph.h"

#include <vector>

#include "backends/graph/equal_sizes.h"

namespace framefuse::ir {

Graph WithSizes(const Graph& graph, absl::Span<const std::int64_t> symbols) {
  Graph sized = graph;
  SetIntegers(sized, symbols);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    Symbol& s = sized.exprs.symbol(static_cast<SymbolIndex>(i));
    if (s.type == NumberType::kFloat) s.hint = symbols[i];
  }
  return sized;
}

bool HasSizesOfFloats(const ExprTable& exprs) {
  std::vector<bool> of_floats(exprs.size());
  const auto part = [&](ExprId id) { return id != kNoExpr && of_floats[static_cast<std::size_t>(id)]; };
  bool any = false;
  for (ExprId id = 0; id < exprs.size(); ++id) {
    const Expr& e = exprs[id];
    const bool is_float = e.kind == ExprKind::kSymbol && e.type == NumberType::kFloat;
    const bool follows = is_float || part(e.left) || part(e.right);
    of_floats[static_cast<std::size_t>(id)] = follows;
    any = any || (follows && e.type == NumberType::kInt);
  }
  return any;
}

}  // namespace framefuse::ir
