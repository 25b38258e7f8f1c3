#include "symbolic/tracing/special_ops.h"

#include <ATen/core/enum_tag.h>

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/version.h>

#include <algorithm>

#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/cumulative_product_gradient.h"
#include "symbolic/tracing/expected_checks.h"
#include "symbolic/tracing/extremum_gradient.h"
#include "symbolic/tracing/geometry_in_place.h"
#include "symbolic/tracing/gradient_checks.h"
#include "symbolic/tracing/known_values.h"
#include "symbolic/tracing/plain_numbers.h"
#include "symbolic/tracing/product_gradient.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/relied_sizes.h"
#include "symbolic/tracing/run_on_zeros.h"
#include "symbolic/tracing/truths_of_all.h"
#include "symbolic/tracing/unbacked_sizes.h"

namespace framefuse::tracing {
namespace {

using torch::jit::Stack;

c10::IValue& ArgumentOf(const c10::OperatorHandle& handle, Stack* stack, std::size_t i) {
  return (*stack)[stack->size() - handle.schema().arguments().size() + i];
}

bool BreakOnData(Recorder& recorder, const c10::OperatorHandle& handle, Stack*) {
  recorder.Break(BreakKind::kDataDependent, TraitsOf(handle), "the result depends on the values of a tensor");
}

bool LocalScalar(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const at::Tensor& read = ArgumentOf(handle, stack, 0).toTensor();
  std::optional<at::Tensor> known = KnownValue(recorder, read);
  if (!known) known = RelyOnValue(recorder.values(), read);
  if (known) {
    const TlsScope off(nullptr);
    stack->back() = known->item();
    return true;
  }
  if (recorder.formulas().product().AsksForCountOfZeros(recorder, read)) {
    stack->back() = c10::Scalar(0);
    return true;
  }
  if (recorder.formulas().cumulative_product().AsksForAnyZero(recorder, read)) {
    stack->back() = c10::Scalar(0);
    return true;
  }
  if (!recorder.formulas().extremum().AsksForNan(recorder, read)) {
    // Torch makes a Python object of an integer's node only.
    const bool whole = c10::isIntegralType(read.scalar_type(), /*includeBool=*/false);
    const std::optional<std::vector<ir::Dim>> numbers = whole ? UnbackedNumbers(recorder, read) : std::nullopt;
    if (!numbers) return BreakOnData(recorder, handle, stack);
    stack->back() = recorder.sizes().ToSymInt(numbers->front());
    return true;
  }
  stack->back() = c10::Scalar(false);
  return true;
}

// native_batch_norm hides the write of its running statistics; the legit form shows it in the schema.
// (input, weight, bias, running_mean, running_var, training, momentum, eps)
bool NativeBatchNorm(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  static const c10::OperatorHandle legit = ir::RequireOp(ir::OpName::k_NativeBatchNormLegit)->handle();
  static const c10::OperatorHandle no_stats = ir::RequireOp(ir::OpName::k_NativeBatchNormLegitNoStats)->handle();
  if (!ArgumentOf(handle, stack, 5).toBool()) return false;
  const bool has_mean = OptionalTensor(ArgumentOf(handle, stack, 3)) != nullptr;
  const bool has_var = OptionalTensor(ArgumentOf(handle, stack, 4)) != nullptr;
  if (has_mean != has_var) {
    recorder.Break(BreakKind::kHiddenState, TraitsOf(handle), "only one of the running statistics is given");
  }
  if (!has_mean) {
    const auto at = stack->end() - 5;  // running_mean
    stack->erase(at, at + 2);
    recorder.RecordPlain(TraitsOf(no_stats), stack);
  } else {
    recorder.RecordPlain(TraitsOf(legit), stack);
  }
  return true;
}

// (input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)
bool CudnnBatchNorm(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  static const c10::OperatorHandle update = ir::RequireOp(ir::OpName::k_BatchNormWithUpdate)->handle();
  if (!ArgumentOf(handle, stack, 5).toBool()) return false;
  if (OptionalTensor(ArgumentOf(handle, stack, 3)) == nullptr) return false;
  stack->erase(stack->end() - 3);  // training
  recorder.RecordPlain(TraitsOf(update), stack);
  return true;
}

// lift_fresh gets tensors that torch makes from numbers (x[0] = 3.0) and from lists of them (x[[0, 2]]), arguments of
// an operator and so literal or guarded.
bool LiftFresh(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const at::Tensor t = stack->back().toTensor();
  if (AsFake(t) != nullptr) return true;
  // Torch before 2.13 makes the index on the device of what is indexed.
  if ((!t.is_cpu() && !t.is_cuda()) || t.requires_grad()) {
    recorder.Break(BreakKind::kRealTensor, TraitsOf(handle), "a tensor made from host memory is used");
  }
  stack->back() = recorder.FreshFromHost(t);
  return true;
}

// Their results share memory with the argument and are written in place (GRU's gates): to the graph they are views.
bool UnsafeSplit(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  static const c10::OperatorHandle equal = ir::RequireOp(ir::OpName::kSplitTensor)->handle();
  static const c10::OperatorHandle sizes = ir::RequireOp(ir::OpName::kSplitWithSizes)->handle();
  recorder.RecordPlain(TraitsOf(ArgumentOf(handle, stack, 1).isInt() ? equal : sizes), stack);
  return true;
}

// Conjugation and negation that wait: the fake has the bit, so that torch resolves it where it does for a tensor.
bool ConjugateView(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const bool was = ArgumentOf(handle, stack, 0).toTensor().is_conj();
  recorder.RecordPlain(TraitsOf(handle), stack);
  stack->back().toTensor()._set_conj(!was);
  return true;
}

bool NegativeView(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const bool was = ArgumentOf(handle, stack, 0).toTensor().is_neg();
  recorder.RecordPlain(TraitsOf(handle), stack);
  stack->back().toTensor()._set_neg(!was);
  recorder.NoteNegated();
  return true;
}

// (self, kind, first, second): torch's operator, which takes doubles and a generator.
bool Draw(Recorder& recorder, const c10::OperatorHandle&, Stack* stack) {
  const auto number = [&] {
    const c10::IValue v = torch::jit::pop(*stack);
    return v.isInt() ? c10::IValue(static_cast<double>(v.toInt())) : v;
  };
  const c10::IValue second = number(), first = number();
  const std::string kind = torch::jit::pop(*stack).toStringRef();
  const ir::OpName name = kind == "bernoulli" ? ir::OpName::kBernoulli_Float
                          : kind == "uniform" ? ir::OpName::kUniform_
                                              : ir::OpName::kNormal_;
  stack->push_back(first);
  if (name != ir::OpName::kBernoulli_Float) stack->push_back(second);
  stack->emplace_back();
  recorder.RecordPlain(TraitsOf(ir::RequireOp(name)->handle()), stack);
  return true;
}

// Before 2.13 the vectors' strides follow from whether a value of a real matrix is complex.
bool Eigenvectors(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  constexpr bool kFollowFromValues = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13;
  if (!kFollowFromValues || ArgumentOf(handle, stack, 0).toTensor().is_complex()) return false;
  return BreakOnData(recorder, handle, stack);
}

// What it calls resizes the result, and takes that back.
bool LinearInto(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const OpTraits& traits = TraitsOf(handle);
  if (traits.meta_source != MetaSource::kComposite || recorder.branches().any_open()) return false;
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta() - c10::DispatchKeySet(c10::DispatchKey::Fake));
  CallComposite(traits.meta, traits, recorder.graph(), stack);
  return true;
}

// Answers with a truth that a guard observes anew in each call, of all data of two tensors; false: nobody may rely on
// it.
bool RelyOnTruth(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack, const Observation& truth) {
  const std::vector<at::Tensor> fakes = {ArgumentOf(handle, stack, 0).toTensor(),
                                         ArgumentOf(handle, stack, 1).toTensor()};
  const std::optional<bool> known = RelyOnTruthOfAll(recorder, fakes, truth);
  if (!known) return false;
  torch::jit::drop(*stack, handle.schema().arguments().size());
  stack->emplace_back(*known);
  return true;
}

// (self, other, rtol, atol, equal_nan)
bool AllClose(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  if (AnswerGradientCheck(recorder, stack)) return true;
  const double rtol = ArgumentOf(handle, stack, 2).toDouble(), atol = ArgumentOf(handle, stack, 3).toDouble();
  const bool equal_nan = ArgumentOf(handle, stack, 4).toBool();
  const auto close = [=](const std::vector<at::Tensor>& values) {
    return at::scalar_tensor(at::allclose(values[0], values[1], rtol, atol, equal_nan), at::kBool);
  };
  return RelyOnTruth(recorder, handle, stack, {"torch.allclose", close}) || BreakOnData(recorder, handle, stack);
}

// (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity): torch calls the second result's sizes a
// matter of values, but they follow from the lengths, which are numbers.
bool CtcLoss(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const OpTraits& traits = TraitsOf(handle);
  const auto count = static_cast<std::size_t>(traits.num_arguments);
  const c10::ArrayRef<c10::IValue> args(stack->data() + (stack->size() - count), count);
  const bool plain = args[0].toTensor().is_cpu() && args[2].isIntList() && args[3].isIntList();
  std::optional<Stack> run = plain ? ZerosFor(args) : std::nullopt;
  if (!run) return BreakOnData(recorder, handle, stack);
  try {
    const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
    handle.callBoxed(&*run);
  } catch (const c10::Error&) {
    return BreakOnData(recorder, handle, stack);
  }
  recorder.RecordAs(traits, stack, *run);
  return true;
}

bool IsMask(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined()) return false;
  const c10::ScalarType t = v.toTensor().scalar_type();
  return t == c10::ScalarType::Bool || t == c10::ScalarType::Byte;
}

// Boolean masks make the size of the result depend on values.
bool Index(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const auto indices = ArgumentOf(handle, stack, 1).toListRef();
  if (std::none_of(indices.begin(), indices.end(), IsMask)) return false;
  return RecordMaskedIndex(recorder, handle, stack) || RecordUnbackedIndex(recorder, handle, stack) ||
         BreakOnData(recorder, handle, stack);
}

bool MaskedSelect(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  return RecordMaskedSelect(recorder, handle, stack) || RecordUnbacked(recorder, handle, stack) ||
         BreakOnData(recorder, handle, stack);
}

// All of its tensors decide of the results' sizes.
bool SizedByValues(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  return RecordSized(recorder, handle, stack) || RecordUnbacked(recorder, handle, stack) ||
         BreakOnData(recorder, handle, stack);
}

bool Nonzero(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  at::Tensor none = recorder.formulas().product().AnswerNoZeros(recorder, ArgumentOf(handle, stack, 0).toTensor());
  if (!none.defined()) return SizedByValues(recorder, handle, stack);
  stack->back() = std::move(none);
  return true;
}

// How torch's own code asks for the truth of a tensor, to raise an error (at::is_scalar_tensor_true): it is what it is
// now, which the graph checks, or who runs it.
std::optional<bool> TruthOfCheck(Recorder& recorder, const std::vector<at::Tensor>& fakes) {
  const auto is_truth = [](const at::Tensor& t) { return t.dim() == 0 && t.scalar_type() == at::kBool; };
  const auto& nodes = recorder.graph().nodes;
  if (recorder.values() == nullptr || !is_truth(fakes[0]) || !is_truth(fakes[1]) || nodes.empty()) return std::nullopt;
  const FakeImpl* ones = AsFake(fakes[1]);
  const bool asked = ones != nullptr && ir::Is(nodes.back().op, ir::OpName::kNewOnes) &&
                     !nodes.back().outputs.empty() && nodes.back().outputs[0] == ones->value();
  const auto values = asked ? recorder.values()->AtHand({fakes[0]}) : std::nullopt;
  if (!values) return std::nullopt;
  bool truth = false;
  {
    const TlsScope off(nullptr);
    truth = values->front().item<bool>();
  }
  const bool checked = RecordTruth(recorder, fakes[0], truth) || ExpectOfTorch(recorder, fakes[0], truth);
  return checked ? std::optional(truth) : std::nullopt;
}

// Writes what `maker` makes of `arguments` into `self`, as the operator on the stack would.
bool WriteResultInto(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack,
                     const c10::OperatorHandle& maker, Stack arguments) {
  static const c10::OperatorHandle copy = ir::RequireOp(ir::OpName::kCopy_)->handle();
  const c10::IValue self = ArgumentOf(handle, stack, 0);
  recorder.Record(maker, &arguments);
  Stack write = {self, arguments[0], false};
  recorder.RecordPlain(TraitsOf(copy), &write);
  torch::jit::drop(*stack, handle.schema().arguments().size());
  stack->push_back(self);
  return true;
}

// (self, n); the functional form has them the other way round, so that no pass finds it by its name.
bool PolygammaInPlace(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  static const c10::OperatorHandle polygamma = ir::RequireOp(ir::OpName::kPolygamma)->handle();
  const c10::IValue self = ArgumentOf(handle, stack, 0);
  if (!self.toTensor().is_floating_point()) return false;
  return WriteResultInto(recorder, handle, stack, polygamma, {ArgumentOf(handle, stack, 1), self});
}

// Its composite kernel looks at the memory.
bool ConjugateInPlace(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  static const c10::OperatorHandle conjugate = ir::RequireOp(ir::OpName::k_ConjPhysical)->handle();
  const c10::IValue self = ArgumentOf(handle, stack, 0);
  if (!self.toTensor().is_complex()) return false;
  return WriteResultInto(recorder, handle, stack, conjugate, {self});
}

bool Equal(Recorder& recorder, const c10::OperatorHandle& handle, Stack* stack) {
  const Observation same{"torch.equal", [](const std::vector<at::Tensor>& values) {
                           return at::scalar_tensor(at::equal(values[0], values[1]), at::kBool);
                         }};
  const std::vector<at::Tensor> fakes = {ArgumentOf(handle, stack, 0).toTensor(),
                                         ArgumentOf(handle, stack, 1).toTensor()};
  const auto values = recorder.values() != nullptr ? recorder.values()->RelyOn(fakes, same) : std::nullopt;
  std::optional<bool> truth;
  if (values) {
    const TlsScope off(nullptr);
    truth = at::equal((*values)[0], (*values)[1]);
  } else {
    truth = TruthOfCheck(recorder, fakes);
  }
  if (!truth) return RelyOnTruth(recorder, handle, stack, same) || BreakOnData(recorder, handle, stack);
  torch::jit::drop(*stack, 2);
  stack->emplace_back(*truth);
  return true;
}

}  // namespace

SpecialFn FindSpecial(const ir::Op& op) {
  using enum ir::OpName;
  static constexpr ir::ByOp<SpecialFn> kSpecial{
      {k_LocalScalarDense, LocalScalar},
      {kNonzero, Nonzero},
      {kEqual, Equal},
      {kDraw_, Draw},
      {kNewZeros, ZerosOfInput},
      {kIsNonzero, BreakOnData},
      {k_Unique, SizedByValues},
      {k_Unique2, SizedByValues},
      {kUniqueDim, SizedByValues},
      {kUniqueConsecutive, SizedByValues},
      {kUniqueDimConsecutive, SizedByValues},
      {kMaskedSelect, MaskedSelect},
      {kBincount, SizedByValues},
      {kRepeatInterleaveTensor, SizedByValues},
      {k_AssertAsync, BreakOnData},
      {k_CtcLoss, CtcLoss},
      {kAllclose, AllClose},
      {kLinearOut, LinearInto},
      {kLinalgEig, Eigenvectors},
      {kResize_, ResizeInPlace},
      {kSet_, BreakOnMetadata},
      {kSet_SourceStorage, BreakOnMetadata},
      {kSet_SourceStorageStorageOffset, BreakOnMetadata},
      {kSet_SourceTensor, BreakOnMetadata},
      {kSet_SourceTensorStorageOffset, BreakOnMetadata},
      {kResizeAs_, ResizeAsInPlace},
      {kPolygamma_, PolygammaInPlace},
      {kConjPhysical_, ConjugateInPlace},
      {kNativeBatchNorm, NativeBatchNorm},
      {kCudnnBatchNorm, CudnnBatchNorm},
      {kLiftFresh, LiftFresh},
      {kLift, LiftFresh},
      {kIndexTensor, Index},
      {k_Conj, ConjugateView},
      {k_NegView, NegativeView},
      {kUnsafeSplitTensor, UnsafeSplit},
      {kUnsafeSplitWithSizes, UnsafeSplit},
  };
  if (const SpecialFn special = kSpecial[&op]) return special;
  if (op.handle().hasTag(at::Tag::inplace_view)) return ViewInPlace;
  if (op.handle().hasTag(at::Tag::data_dependent_output) || op.is_sized_by_values()) return BreakOnData;
  return nullptr;
}

}  // namespace framefuse::tracing
