#include "backends/fusion/sink_views.h"

#include <algorithm>
#include <map>

#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

bool IsConstantAndContiguous(Graph& g, ValueId v) {
  const ir::Value& value = g.value(v);
  const bool constant =
      std::all_of(value.sizes.begin(), value.sizes.end(), [](const ir::Dim& d) { return d.is_constant(); });
  return constant && ir::IsContiguous(g.exprs, value);
}

// The only tensor that a node takes, and no other.
ValueId OnlyTensor(const Graph& g, const Node& n) {
  ValueId only = ir::kNoValue;
  int tensors = 0;
  ir::ForEachUse(n, [&](ValueId v) {
    if (NumberConstant(g, v)) return;
    only = v;
    ++tensors;
  });
  return tensors == 1 ? only : ir::kNoValue;
}

// A number without dimensions gives way to a tensor that has some, whatever its type.
bool PromotesAlike(const Graph& g, const Node& n, ValueId in, ValueId instead) {
  if (g.value(in).sizes.empty() == g.value(instead).sizes.empty()) return true;
  bool alike = true;
  ir::ForEachUse(n, [&](ValueId v) { alike = alike && g.value(v).dtype == g.value(in).dtype; });
  return alike;
}

}  // namespace

absl::StatusOr<bool> SinkViews(Graph& g) {
  std::map<ValueId, ValueId> base_of;  // views of what a kernel makes
  std::map<ValueId, bool> made_by_kernel;
  std::vector<Node> old = std::move(g.nodes), nodes;
  g.nodes.clear();
  bool changed = false;
  for (Node& n : old) {
    const bool pointwise = IsPointwise(g, n);
    const ValueId in = pointwise ? OnlyTensor(g, n) : ir::kNoValue;
    const auto base = base_of.find(in);
    const bool sinks = in != ir::kNoValue && base != base_of.end() && IsConstantAndContiguous(g, n.outputs[0]) &&
                       g.value(n.outputs[0]).sizes == g.value(in).sizes && PromotesAlike(g, n, in, base->second);
    if (!sinks) {
      if (pointwise) made_by_kernel[n.outputs[0]] = true;
      const bool view = ir::Is(n.op, ir::OpName::kView) || ir::Is(n.op, ir::OpName::k_UnsafeView);
      if (view && made_by_kernel.contains(n.args[0].value) && IsConstantAndContiguous(g, n.args[0].value) &&
          IsConstantAndContiguous(g, n.outputs[0])) {
        base_of[n.outputs[0]] = n.args[0].value;
      }
      nodes.push_back(std::move(n));
      continue;
    }
    changed = true;
    const ValueId out = n.outputs[0];
    ir::Value like = g.value(base->second);
    like.dtype = g.value(out).dtype;
    like.storage = -1;
    const ValueId inner = g.AddValue(like);
    std::vector<std::int64_t> sizes;
    for (const ir::Dim& d : g.value(out).sizes) sizes.push_back(d.constant());
    for (ir::Arg& arg : n.args) {
      if (arg.kind == ir::Arg::Kind::kValue && arg.value == in) arg.value = base->second;
    }
    n.outputs[0] = inner;
    nodes.push_back(std::move(n));
    NodeWriter(&g, &nodes, Node(nodes.back())).Into(out).View(inner, sizes);
    made_by_kernel[inner] = true;
    base_of[out] = inner;
  }
  g.nodes = std::move(nodes);
  return changed;
}

}  // namespace framefuse::fusion
