#include "symbolic/tracing/extremum_gradient.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>

#include <unordered_set>
#include <utility>
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

bool ExtremumGradient::AsksForNan(Recorder& recorder, const at::Tensor& question) {
  const FakeImpl* fake = AsFake(question);
  const auto& recorded = recorder.graph().nodes;
  if (fake == nullptr || recorded.empty() || !IsInFormula()) return false;
  const ir::Node& last = recorded.back();
  if (!ir::Is(last.op, ir::OpName::kIsnan) || last.outputs[0] != fake->value()) return false;
  ir::ForEachValue(last.args[0], [&](ir::ValueId v) { compared_ = v; });
  return expects_comparison();
}

bool ExtremumGradient::Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack) {
  if (!expects_comparison()) return false;
  const ir::ValueId expected = std::exchange(compared_, ir::kNoValue);
  const bool compares = ir::Is(traits.op, ir::OpName::kEqTensor);
  const at::Tensor other = compares ? torch::jit::pop(*stack).toTensor() : at::Tensor();
  const FakeImpl* fake = compares ? AsFake(other) : nullptr;
  if (fake == nullptr || fake->value() != expected) {
    recorder.Break(BreakKind::kDataDependent, traits, "the backward pass depends on the values of a tensor");
  }
  const at::Tensor self = torch::jit::pop(*stack).toTensor();
  stack->emplace_back(at::logical_or(at::eq(self, other), at::logical_and(at::isnan(self), at::isnan(other))));
  return true;
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
