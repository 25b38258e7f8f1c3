#include "symbolic/tracing/made_leaves.h"

#include <vector>

#include "symbolic/tracing/fake_tensor.h"

namespace framefuse::tracing {
namespace {

// What an operator that writes in place gives out is what it was given: the operand of its output's memory.
ir::ValueId WrittenOperand(const ir::Graph& graph, const ir::Node& node, ir::ValueId out) {
  ir::ValueId operand = ir::kNoValue;
  const auto& schema = node.op->arguments();
  for (std::size_t a = 0; a < node.args.size() && node.op->mutates(); ++a) {
    if (!schema[a].written) continue;
    ir::ForEachValue(node.args[a], [&](ir::ValueId v) {
      if (graph.value(v).storage == graph.value(out).storage) operand = v;
    });
  }
  return operand;
}

// -1: no node does; it stands for an input's memory.
int MakerOf(const ir::Graph& graph, const std::vector<ir::NodeIndex>& definitions, ir::ValueId value) {
  for (;;) {
    const ir::NodeIndex node = definitions[static_cast<std::size_t>(value)];
    if (node == ir::kNoNode) return -1;
    const ir::ValueId operand = WrittenOperand(graph, graph.nodes[static_cast<std::size_t>(node)], value);
    if (operand == ir::kNoValue) return static_cast<int>(node);
    value = operand;
  }
}

}  // namespace

absl::Status RefuseMadeLeaves(Recorder& recorder, absl::Span<const at::Tensor> leaves, const std::string& explanation) {
  const ir::Graph& graph = recorder.graph();
  const std::vector<ir::NodeIndex> definitions = graph.Definitions();
  int first = -1;
  for (const at::Tensor& leaf : leaves) {
    const FakeImpl* fake = AsFake(leaf);
    const int maker = fake == nullptr ? -1 : MakerOf(graph, definitions, fake->value());
    if (maker >= 0 && (first < 0 || maker < first)) first = maker;
  }
  recorder.SetPendingBreak({BreakKind::kHiddenState, "output", explanation, {}, first});
  return absl::FailedPreconditionError("output: " + explanation);
}

}  // namespace framefuse::tracing
