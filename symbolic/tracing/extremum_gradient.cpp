#include "symbolic/tracing/extremum_gradient.h"

#include <unordered_set>
#include <vector>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

bool IsInFormula() {
  static const auto* nodes =
      new std::unordered_set<std::string>{"MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"};
  return nodes->contains(CurrentBackwardName());
}

// The input, which it has compared with the result a few operators ago. kNoValue: it has not.
ir::ValueId ComparedInput(const ir::Graph& graph) {
  constexpr std::size_t kMostBetween = 8;
  for (std::size_t i = graph.nodes.size(), n = 0; i-- > 0 && n < kMostBetween; ++n) {
    if (ir::Is(graph.nodes[i].op, ir::OpName::kEqTensor)) return graph.nodes[i].args[0].value;
  }
  return ir::kNoValue;
}

}  // namespace

ir::ValueId ResultAskedAbout(Recorder& recorder, const at::Tensor& question) {
  const FakeImpl* fake = AsFake(question);
  const auto& recorded = recorder.graph().nodes;
  if (fake == nullptr || recorded.empty() || !IsInFormula()) return ir::kNoValue;
  const ir::Node& last = recorded.back();
  if (!ir::Is(last.op, ir::OpName::kIsnan) || last.outputs[0] != fake->value()) return ir::kNoValue;
  ir::ValueId result = ir::kNoValue;
  ir::ForEachValue(last.args[0], [&](ir::ValueId v) { result = v; });
  return result;
}

bool AsksForZerosOf(Recorder& recorder, ir::ValueId value) {
  return IsInFormula() && ComparedInput(recorder.graph()) == value;
}

bool ZerosOfInput(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  if (!recorder.sizes().any() || !IsInFormula()) return false;
  const ir::ValueId input = ComparedInput(recorder.graph());
  if (input == ir::kNoValue) return false;
  std::vector<c10::SymInt> sizes;
  for (const ir::Dim d : recorder.graph().value(input).sizes) sizes.push_back(recorder.sizes().ToSymInt(d));
  (*stack)[stack->size() - handle.schema().arguments().size() + 1] = c10::IValue(c10::SymIntArrayRef(sizes));
  return false;
}

}  // namespace framefuse::tracing
