#include "backends/autograd/saved_elements.h"

#include <cstddef>
#include <utility>

#include "backends/runtime/differentiable_ops.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::Arg;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

std::vector<ValueId> TensorsOf(const Graph& joint, const Node& n) {
  std::vector<ValueId> tensors;
  ir::ForEachUse(n, [&](ValueId v) {
    if (joint.value(v).kind == ir::ValueKind::kTensor) tensors.push_back(v);
  });
  return tensors;
}

}  // namespace

std::vector<ValueId> GiveElements(Graph& joint, absl::Span<const ValueId> values, bool watch) {
  std::vector<ValueId> given(values.size(), kNoValue);
  std::vector<std::ptrdiff_t> place(joint.values.size(), -1);
  for (std::size_t i = 0; i < values.size(); ++i) place[At(values[i])] = static_cast<std::ptrdiff_t>(i);
  std::vector<Node> nodes;
  nodes.reserve(joint.nodes.size() + values.size());
  for (Node& n : joint.nodes) {
    std::vector<Node> after;
    for (ValueId& v : n.outputs) {
      if (v == kNoValue || n.phase != ir::Phase::kForward || joint.value(v).kind != ir::ValueKind::kTensor) continue;
      const std::ptrdiff_t saved = place[At(v)];
      if (saved < 0 && !watch) continue;
      Node next;
      next.op = saved < 0 ? NotesUnsaved() : GivesElements();
      next.phase = n.phase;
      next.origin = n.origin;
      next.outputs = {v};
      ir::Value metadata = joint.value(v);
      v = joint.AddValue(metadata);
      next.args = {Arg::OfValue(v)};
      if (saved >= 0) {
        given[At(saved)] = joint.AddValue(std::move(metadata));
        next.args.push_back(Arg::OfValue(given[At(saved)]));
      }
      next.args.push_back(Arg::OfValues(TensorsOf(joint, n)));
      after.push_back(std::move(next));
    }
    nodes.push_back(std::move(n));
    for (Node& next : after) nodes.push_back(std::move(next));
  }
  joint.nodes = std::move(nodes);
  return given;
}

}  // namespace framefuse
