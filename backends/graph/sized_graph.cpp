#include "backends/graph/sized_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/graph/equal_sizes.h"

namespace framefuse::ir {

Graph WithSizes(const Graph& graph, absl::Span<const std::int64_t> symbols) {
  Graph sized = graph;
  const std::vector<Symbol>& all = graph.exprs.symbols();
  if (std::any_of(all.begin(), all.end(), [](const Symbol& s) { return s.type == NumberType::kFloat; })) {
    SetIntegers(sized, symbols);
    return sized;
  }
  std::vector<std::int64_t> values;
  graph.exprs.EvaluateAll(symbols, &values);
  const auto fill = [&](Dim& d) {
    if (d.is_symbolic()) d = Dim(values[static_cast<std::size_t>(d.expr)]);
  };
  for (Value& v : sized.values) {
    for (Dim& d : v.sizes) fill(d);
    for (Dim& d : v.strides) fill(d);
    fill(v.offset);
  }
  for (Node& n : sized.nodes) {
    for (Arg& a : n.args) {
      if (a.kind == Arg::Kind::kDimList) {
        for (Dim& d : a.dims) fill(d);
        a = Arg::OfDims(std::move(a.dims));
      } else if (a.kind == Arg::Kind::kDim) {
        const NumberType type = graph.exprs.TypeOf(a.dims[0]);
        fill(a.dims[0]);
        const std::int64_t bits = a.dims[0].constant();
        a = Arg::Constant(NumberOf(bits, type));
      }
    }
  }
  sized.exprs = ExprTable();
  return sized;
}

}  // namespace framefuse::ir
