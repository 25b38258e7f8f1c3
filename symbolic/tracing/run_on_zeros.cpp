#include "symbolic/tracing/run_on_zeros.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "backends/graph/believing_ops.h"
#include "backends/graph/boxed_call.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  // of one argument

bool CanRun(const at::Tensor& t) {
  return !t.defined() || (t.device().is_cpu() && t.layout() == c10::Layout::Strided && t.numel() <= kMostElements);
}

bool CanRun(const c10::IValue& v) {
  if (v.isGenerator()) return false;
  if (v.isTensor()) return CanRun(v.toTensor());
  if (!v.isTensorList() && !v.isOptionalTensorList()) return true;
  const auto list = v.toListRef();
  return std::all_of(list.begin(), list.end(),
                     [](const c10::IValue& e) { return !e.isTensor() || CanRun(e.toTensor()); });
}

at::Tensor ZerosLike(const at::Tensor& t) {
  if (!t.defined() || AsFake(t) == nullptr) return t;
  const at::Tensor zeros = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::DeviceType::CPU)).zero_();
  const at::Tensor maybe_conjugate = t.is_conj() ? zeros._conj() : zeros;
  return t.is_neg() ? maybe_conjugate._neg_view() : maybe_conjugate;
}

c10::IValue ZerosOf(const c10::IValue& v) {
  if (v.isTensor()) return ZerosLike(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& e : v.toListRef()) list.push_back(ZerosLike(e.toTensor()));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& e : v.toListRef()) {
      list.push_back(e.isTensor() ? std::optional<at::Tensor>(ZerosLike(e.toTensor())) : std::nullopt);
    }
    return list;
  }
  return v;
}

bool IsEmpty(const c10::IValue& v) { return v.isTensor() && v.toTensor().defined() && v.toTensor().sym_numel() == 0; }

// A pointwise kernel has then no element to refuse, a view none to look at. To ask is to look at all sizes.
bool IsAsked(ir::OpId op) {
  if (ir::Has(op, ir::OpFact::kTakesEmpties) || op->is_pointwise() || op->is_view() || op->is_random() ||
      op->has_side_effect())
    return false;
  const c10::OperatorHandle& handle = op->handle();
  return ir::Has(op, ir::OpFact::kAten) && !ir::BelievesItsArguments(op) &&
         !handle.hasTag(at::Tag::nondeterministic_seeded) && !handle.hasTag(at::Tag::inplace_view);
}

}  // namespace

std::optional<torch::jit::Stack> ZerosFor(c10::ArrayRef<c10::IValue> args) {
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());  // zeros are no part of a graph
  torch::jit::Stack stack;
  for (const c10::IValue& v : args) {
    if (!CanRun(v)) return std::nullopt;
    stack.push_back(ZerosOf(v));
  }
  return stack;
}

bool AnyIsEmpty(c10::ArrayRef<c10::IValue> args) {
  return std::any_of(args.begin(), args.end(), [](const c10::IValue& v) {
    if (!v.isTensorList() && !v.isOptionalTensorList()) return IsEmpty(v);
    const auto list = v.toListRef();
    return std::any_of(list.begin(), list.end(), IsEmpty);
  });
}

bool RunsOnZeros(ir::OpId op, c10::ArrayRef<c10::IValue> args) {
  if (!ir::Has(op, ir::OpFact::kAten) || op->is_random() || op->has_side_effect()) return false;
  std::optional<torch::jit::Stack> stack = ZerosFor(args);
  if (!stack.has_value()) return false;
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  try {
    ir::CallHoldingOperands(op->handle(), &*stack);
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

std::optional<std::string> RefusalOfEmpties(ir::OpId op, c10::ArrayRef<c10::IValue> args) {
  if (!IsAsked(op) || !AnyIsEmpty(args)) return std::nullopt;
  std::optional<torch::jit::Stack> stack = ZerosFor(args);
  if (!stack.has_value()) return std::nullopt;
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  try {
    ir::CallHoldingOperands(op->handle(), &*stack);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return std::nullopt;
}

}  // namespace framefuse::tracing
