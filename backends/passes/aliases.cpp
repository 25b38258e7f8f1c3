#include "backends/passes/aliases.h"
#include "backends/graph/operators.h"
#include "common/index.h"

namespace framefuse {

int ViewedArgument(const ir::Op& op) {
  static const ir::OpId kUnsafeView = ir::RequireOp(ir::OpName::k_UnsafeView);
  if (&op == kUnsafeView) return 0;
  for (const ir::OpReturn& r : op.returns()) {
    if (r.viewed_argument >= 0) return r.viewed_argument;
  }
  return -1;
}

Aliases::Aliases(const ir::Graph& graph)
    : root_(graph.values.size()),
      escapes_(graph.values.size()),
      is_output_(graph.values.size()),
      is_input_(graph.values.size()) {
  for (std::size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<ir::ValueId>(v);
  for (const ir::Node& n : graph.nodes) {
    int viewed = ViewedArgument(*n.op);
    if (viewed < 0 || n.args[At(viewed)].kind != ir::Arg::Kind::kValue) continue;
    ir::ValueId base = RootOf(n.args[At(viewed)].value);
    for (ir::ValueId v : n.outputs) {
      if (v != ir::kNoValue) root_[At(v)] = base;
    }
  }
  for (const ir::Input& in : graph.inputs) is_input_[At(in.value)] = true;
  for (const ir::Output& o : graph.outputs) {
    if (o.value == ir::kNoValue) continue;
    is_output_[At(o.value)] = true;
    escapes_[At(RootOf(o.value))] = true;
  }
}

}  // namespace framefuse
