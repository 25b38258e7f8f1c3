#include "backends/passes/offsets_of_roots.h"

#include <vector>

#include "backends/graph/operators.h"
#include "backends/passes/aliases.h"
#include "common/index.h"

namespace framefuse {

absl::Status TakeOffsetsFromRoots(ir::Graph& graph) {
  const Aliases aliases(graph);
  std::vector<bool> written(graph.values.size(), false);
  for (const ir::Node& n : graph.nodes) {
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ir::ValueId v) { written[At(aliases.RootOf(v))] = true; });
    }
  }
  for (ir::Node& n : graph.nodes) {
    if (!ir::Is(n.op, ir::OpName::kAsStrided) || n.args[0].kind != ir::Arg::Kind::kValue) continue;
    const ir::ValueId root = aliases.RootOf(n.args[0].value);
    if (!written[At(root)]) continue;
    const ir::Value &from = graph.value(n.args[0].value), &whole = graph.value(root);
    if (aliases.FromInput(root) || whole.offset != ir::Dim(0) || from.dtype != whole.dtype) {
      return absl::UnimplementedError("as_strided on memory that is written and not made here");
    }
    n.args[0] = ir::Arg::OfValue(root);
    n.args[3] = ir::Arg::OfDim(graph.value(n.outputs[0]).offset);
  }
  return absl::OkStatus();
}

}  // namespace framefuse
