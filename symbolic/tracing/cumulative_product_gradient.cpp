#include "symbolic/tracing/cumulative_product_gradient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/recorded_values.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

const ir::Node* MakerBy(ir::OpName op, const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* maker = MakerOf(graph, value);
  return maker != nullptr && ir::Is(maker->op, op) ? maker : nullptr;
}

at::Tensor SumFromTheEnd(const at::Tensor& t, std::int64_t dim) {
  return at::flip(at::cumsum(at::flip(t, {dim}), dim), {dim});
}

// As the formula has it, for any number of zeros: what comes before the first one is divided, and the first one itself
// gets the products of what comes before it and of what comes between it and the next.
at::Tensor GradientOf(const at::Tensor& input, const at::Tensor& is_zero, const at::Tensor& weighted,
                      const at::Tensor& gradient, std::int64_t dim) {
  const at::Tensor nothing = at::zeros_like(weighted);
  const at::Tensor one = at::ones_like(input);
  const at::Tensor count = at::cumsum(is_zero, dim);
  const at::Tensor before = at::eq(count, 0);
  const at::Tensor behind = at::eq(count, 1);
  const at::Tensor first = at::logical_and(is_zero, behind);
  const at::Tensor between = at::logical_and(behind, at::logical_not(first));
  const at::Tensor sums = SumFromTheEnd(at::where(before, weighted, nothing), dim);
  const at::Tensor quotient = at::div(sums, at::where(before, input, one));
  const at::Tensor products = at::cumprod(at::where(between, input, one), dim);
  const at::Tensor terms = at::mul(products, at::where(behind, gradient, nothing));
  const at::Tensor of_first = at::mul(at::sum(terms, {dim}, true), at::prod(at::where(before, input, one), dim, true));
  return at::where(before, quotient, at::where(first, of_first, nothing));
}

}  // namespace

bool AsksForSeveral(Recorder& recorder, ir::Dim size) {
  if (at::GradMode::is_enabled() || CurrentBackwardName() != "CumprodBackward0") return false;
  return recorder.sizes().Decide(ir::ExprKind::kLe, ir::Dim(2), size);
}

bool CumulativeProductGradient::AsksForAnyZero(Recorder& recorder, const at::Tensor& any) {
  const FakeImpl* fake = AsFake(any);
  if (fake == nullptr || at::GradMode::is_enabled() || CurrentBackwardName() != "CumprodBackward0") return false;
  const ir::Graph& graph = recorder.graph();
  const ir::Node* asks = MakerBy(ir::OpName::kAny, graph, fake->value());
  const ir::Node* compares = asks == nullptr ? nullptr : MakerBy(ir::OpName::kEqScalar, graph, asks->args[0].value);
  if (compares == nullptr) return false;
  is_zero_ = asks->args[0].value;
  return true;
}

bool CumulativeProductGradient::Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack) {
  if (is_zero_ == ir::kNoValue) return false;
  if (ir::Is(traits.op, ir::OpName::kFlip) || ir::Is(traits.op, ir::OpName::kCumsum)) return false;
  if (ir::Is(traits.op, ir::OpName::kClone) || ir::Is(traits.op, ir::OpName::k_ConjPhysical) ||
      ir::Is(traits.op, ir::OpName::kConjPhysical_))
    return false;  // resolved
  const ir::ValueId zeros = std::exchange(is_zero_, ir::kNoValue);
  const ir::Graph& graph = recorder.graph();
  const FakeImpl* sums = ir::Is(traits.op, ir::OpName::kDivTensor) ? AsFake((stack->end() - 2)->toTensor()) : nullptr;
  const ir::Node* last = sums == nullptr ? nullptr : MakerBy(ir::OpName::kFlip, graph, sums->value());
  const ir::Node* sum = last == nullptr ? nullptr : MakerBy(ir::OpName::kCumsum, graph, last->args[0].value);
  const ir::Node* flip = sum == nullptr ? nullptr : MakerBy(ir::OpName::kFlip, graph, sum->args[0].value);
  const ir::Node* weighs = flip == nullptr ? nullptr : MakerBy(ir::OpName::kMulTensor, graph, flip->args[0].value);
  if (weighs == nullptr) {
    recorder.Break(BreakKind::kDataDependent, traits, "the backward pass depends on the values of a tensor");
  }
  const std::int64_t dim = sum->args[1].constant.toInt();
  const at::Tensor weighted = FakeOf(recorder, flip->args[0].value);
  const at::Tensor gradient = FakeOf(recorder, weighs->args[1].value);
  const at::Tensor input = torch::jit::pop(*stack).toTensor();
  torch::jit::drop(*stack, 1);
  stack->emplace_back(GradientOf(input, FakeOf(recorder, zeros), weighted, gradient, dim));
  return true;
}

}  // namespace framefuse::tracing
