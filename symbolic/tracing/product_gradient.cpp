#include "symbolic/tracing/product_gradient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/narrow.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <string_view>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

// A gradient that can be differentiated is another formula.
bool IsMadeLast(Recorder& recorder, const at::Tensor& t, ir::OpNames ops, std::string_view formula) {
  const FakeImpl* fake = AsFake(t);
  const auto& recorded = recorder.graph().nodes;
  return fake != nullptr && !recorded.empty() && !at::GradMode::is_enabled() && CurrentBackwardName() == formula &&
         ops.contains(recorded.back().op) && recorded.back().outputs[0] == fake->value();
}

// Along one dimension: what comes before an element, times what comes behind it.
at::Tensor ProductAround(const at::Tensor& input, std::int64_t dim) {
  const c10::SymInt size = input.sym_size(dim);
  if (size == 1 || input.sym_numel() == 0) return at::ones_like(input);
  const at::Tensor first = at::ones_like(at::narrow_symint(input, dim, 0, 1));
  const at::Tensor before = at::cumprod(at::cat({first, at::narrow_symint(input, dim, 0, size - 1)}, dim), dim);
  const at::Tensor reversed = at::flip(at::narrow_symint(input, dim, 1, size - 1), dim);
  return at::mul(before, at::flip(at::cumprod(at::cat({first, reversed}, dim), dim), dim));
}

// The dimension along which `result` has one element only; of an input that has one there, too, any.
std::int64_t ReducedDim(const at::Tensor& result, const at::Tensor& input) {
  std::int64_t dim = 0;
  for (std::int64_t d = 0; d < input.dim(); ++d) {
    if (result.sym_size(d) == 1) dim = d;
    if (result.sym_size(d) != input.sym_size(d)) return d;
  }
  return dim;
}

// The product of all other elements, for each element, as the formula has it. `zeros` is their number.
at::Tensor ProductOfOthers(const at::Tensor& result, const at::Tensor& input, const at::Tensor& zeros) {
  const at::Tensor none = at::eq(zeros, 0);
  // Its own derivative must not divide by a zero either.
  const at::Tensor quotient = at::div(result, at::where(none, input, at::ones_like(input)));
  at::Tensor product;
  if (result.dim() == 0) {
    product = ProductAround(input.reshape({-1}), 0).reshape_symint(input.sym_sizes());
  } else {
    product = ProductAround(input, ReducedDim(result, input));
  }
  return at::where(none, quotient, product);
}

}  // namespace

at::Tensor ProductGradient::AnswerNoZeros(Recorder& recorder, const at::Tensor& mask) {
  if (!IsMadeLast(recorder, mask, {ir::OpName::kEqTensor, ir::OpName::kEqScalar}, "ProdBackward0")) return at::Tensor();
  const at::Tensor places = at::empty({0, mask.dim()}, mask.options().dtype(at::kLong));
  zeros_ = at::sum(mask);
  return places;
}

bool ProductGradient::AsksForCountOfZeros(Recorder& recorder, const at::Tensor& count) {
  if (!IsMadeLast(recorder, count, {ir::OpName::kSum, ir::OpName::kSumDimIntList}, "ProdBackward1")) return false;
  zeros_ = count;
  return true;
}

bool ProductGradient::Continue(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack) {
  const bool divides = zeros_.defined();
  const bool scales = !divides && hidden_.defined() && ir::Is(traits.op, ir::OpName::kMulTensor);
  if (divides) Divide(recorder, traits, stack);
  if (scales) Scale(stack);
  return divides || scales;
}

void ProductGradient::Divide(Recorder& recorder, const OpTraits& traits, torch::jit::Stack* stack) {
  const at::Tensor zeros = std::exchange(zeros_, at::Tensor());
  if (!ir::Is(traits.op, ir::OpName::kDivTensor)) {
    recorder.Break(BreakKind::kDataDependent, traits, "the backward pass depends on the values of a tensor");
  }
  const at::Tensor input = torch::jit::pop(*stack).toTensor();
  const at::Tensor result = torch::jit::pop(*stack).toTensor();
  stack->emplace_back(ProductOfOthers(result, input, zeros));
  if (result.dim() == 0) hidden_ = at::gt(zeros, 1);
}

// With two zeros or more the formula gives zeros, whatever the other elements and the gradient are.
void ProductGradient::Scale(torch::jit::Stack* stack) {
  const at::Tensor hidden = std::exchange(hidden_, at::Tensor());
  const at::Tensor product = torch::jit::pop(*stack).toTensor();
  const at::Tensor gradient = torch::jit::pop(*stack).toTensor();
  const at::Tensor scaled = at::mul(gradient, product);
  stack->emplace_back(at::where(hidden, at::zeros_like(scaled), scaled));
}

}  // namespace framefuse::tracing
