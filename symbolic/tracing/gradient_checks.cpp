#include "symbolic/tracing/gradient_checks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/all.h>
#include <ATen/ops/isclose.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <utility>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/recorded_values.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

using torch::jit::Stack;

// As FunctionsManual.cpp of torch says it.
const char* TextFor(const std::string& node) {
  if (node == "LinalgSvdBackward0") {
    return "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. "
           "The "
           "specified loss function depends on this phase term, making it ill-defined.";
  }
  if (node == "LinalgEighBackward0") {
    return "linalg_eigh_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i "
           "phi}. "
           "The specified loss function depends on this quantity, so it is ill-defined.";
  }
  if (node == "LinalgEigBackward0") {
    return "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. "
           "The specified loss function depends on this quantity, so it is ill-defined.";
  }
  return nullptr;
}

// Known by its number: the tensor would outlive the recording.
struct Waiting {
  std::uint64_t recording = 0;
  ir::ValueId check = ir::kNoValue;
  const char* text = nullptr;
};
thread_local Waiting waiting;

}  // namespace

bool AnswerGradientCheck(Recorder& recorder, Stack* stack) {
  const char* text = at::GradMode::is_enabled() ? nullptr : TextFor(CurrentBackwardName());
  const auto at = [&](std::size_t i) -> const c10::IValue& { return (*stack)[stack->size() - 5 + i]; };
  const at::Tensor self = at(0).toTensor(), other = at(1).toTensor();
  if (text == nullptr || !self.is_cpu() || AsFake(self) == nullptr) return false;
  const at::Tensor check = at::all(at::isclose(self, other, at(2).toDouble(), at(3).toDouble(), at(4).toBool()));
  if (AsFake(check) == nullptr) return false;
  waiting = {recorder.id(), AsFake(check)->value(), text};
  torch::jit::drop(*stack, 5);
  stack->emplace_back(true);
  return true;
}

void TieGradientCheck(Recorder& recorder, Stack* stack, const OpTraits& traits) {
  static const c10::OperatorHandle holds = ir::RequireOp(ir::OpName::k_FunctionalAssertAsyncMsg)->handle();
  if (waiting.text == nullptr) return;
  const Waiting check = std::exchange(waiting, Waiting());
  if (check.recording != recorder.id()) return;
  c10::IValue& operand = (*stack)[stack->size() - static_cast<std::size_t>(traits.num_arguments)];
  FakeImpl* fake = traits.num_arguments > 0 && operand.isTensor() ? AsFake(operand.toTensor()) : nullptr;
  if (fake == nullptr || traits.op->mutates()) {
    recorder.Break(BreakKind::kDataDependent, traits, "the backward pass depends on the values of a tensor");
  }
  Stack call = {FakeOf(recorder, check.check), std::string(check.text), operand};
  Stack copy;
  {
    const TlsScope off(nullptr);
    const c10::impl::ExcludeDispatchKeyGuard plain(KeysOffForMeta());
    copy.emplace_back(fake->Meta().clone());
  }
  recorder.RecordAs(TraitsOf(holds), &call, copy);  // no kernel is probed: of zeros it would raise
  operand = call.back();
}

}  // namespace framefuse::tracing
