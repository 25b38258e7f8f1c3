#include "backends/graph/meta_run.h"

#include <ATen/core/enum_tag.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <utility>

#include "backends/graph/boxed_call.h"
#include "backends/graph/format_of_padding.h"
#include "backends/graph/op_kernels.h"
#include "backends/graph/operators.h"

namespace framefuse::ir {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

// As execution has it: no autograd, no autocast, nobody's modes.
DispatchKeySet KeysOff() {
  return c10::autograd_dispatch_keyset | DispatchKeySet(DispatchKey::ADInplaceOrView) | c10::autocast_dispatch_keyset |
         DispatchKeySet(DispatchKey::Functionalize) | DispatchKeySet(DispatchKey::Python) |
         DispatchKeySet(DispatchKey::PythonTLSSnapshot);
}

// A composite kernel is what eager runs only where the device has none of its own.
const c10::KernelFunction* CompositeOf(const c10::OperatorHandle& handle) {
  if (FindKernel(handle, DispatchKey::CPU, false) != nullptr) return nullptr;
  const c10::KernelFunction* k = FindKernel(handle, DispatchKey::CompositeExplicitAutogradNonFunctional, false);
  return k != nullptr ? k : FindKernel(handle, DispatchKey::CompositeExplicitAutograd, false);
}

// The CPU's kernels work on copies of operands of other types, and lay out what they make like these copies, which have
// other strides where the operand has gaps. (Of an operator that is not elementwise, integers are places; a bool is a
// condition.)
void ConvertOperands(const Graph& g, const Node& n, torch::jit::Stack* stack) {
  const bool pointwise = n.op->handle().hasTag(at::Tag::pointwise) || Has(n.op, OpFact::kConverts);
  const auto is_operand = [&](const c10::IValue& v) {
    if (!v.isTensor() || !v.toTensor().defined()) return false;
    const c10::ScalarType type = v.toTensor().scalar_type();
    return type != c10::ScalarType::Bool && (pointwise || c10::isFloatingType(type));
  };
  if (n.outputs.empty() || n.outputs[0] == kNoValue || !g.value(n.outputs[0]).device.is_cpu()) return;
  at::native::ResultTypeState state;
  for (const c10::IValue& v : *stack) {
    if (is_operand(v)) state = at::native::update_result_type_state(v.toTensor(), state);
  }
  const c10::ScalarType common = at::native::result_type(state);
  for (c10::IValue& v : *stack) {
    if (!is_operand(v) || v.toTensor().scalar_type() == common || v.toTensor().dim() == 0) continue;
    if (!v.toTensor().is_non_overlapping_and_dense()) v = at::empty_like(v.toTensor());
  }
}

void Flatten(const torch::jit::Stack& stack, std::vector<at::Tensor>* tensors) {
  for (const c10::IValue& v : stack) {
    if (v.isTensorList()) {
      for (at::Tensor& t : v.toTensorVector()) tensors->push_back(std::move(t));
    } else {
      tensors->push_back(v.isTensor() ? v.toTensor() : at::Tensor());
    }
  }
}

// The sizes that it was recorded with are those of values that guards compare. An index's are, if it is a mask.
bool IsSizedByValues(const Graph& g, const Node& n) {
  if (!n.op->is_sized_by_values()) return false;
  if (!Is(n.op, OpName::kIndexTensor)) return true;
  bool has_mask = false;
  ForEachUse(n, [&](ValueId v) { has_mask = has_mask || (v != n.args[0].value && g.value(v).dtype == at::kBool); });
  return has_mask;
}

// Torch's kernels for metadata have statistics of single precision, also where there are none, in evaluation. The CPU's
// have them in their operand's type.
bool HasOtherStatistics(const Graph& g, const Node& n) {
  constexpr OpNames kNames{OpName::k_NativeBatchNormLegitFunctional, OpName::k_BatchNormWithUpdateFunctional};
  if (!kNames.contains(n.op)) return false;
  const int training = n.op->FindArgument("training");
  if (training >= 0 && !n.args[static_cast<std::size_t>(training)].constant.toBool()) return true;
  return c10::isReducedFloatingType(g.value(n.args[0].value).dtype);
}

}  // namespace

absl::StatusOr<std::optional<MetaResults>> MetaRun::ResultsOf(const Node& n) const {
  if (Has(n.op, OpFact::kMetaWrong) || IsSizedByValues(g_, n) || HasOtherStatistics(g_, n)) return std::nullopt;
  const c10::OperatorHandle& handle = n.op->handle();
  const c10::KernelFunction* kernel = FindKernel(handle, DispatchKey::Meta, false);
  MetaResults results;
  if (kernel == nullptr) {
    kernel = CompositeOf(handle);
  }
  results.has_strides = !Has(n.op, OpFact::kMetaStridesWrong);
  if (kernel == nullptr) return std::nullopt;
  torch::jit::Stack stack;
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    std::optional<c10::IValue> v = Argument(n.args[a], n.op->arguments()[a]);
    if (!v.has_value()) return std::nullopt;
    stack.push_back(*std::move(v));
  }
  if (PadsInFormat(n.op)) {
    const at::Tensor& padded = stack[static_cast<std::size_t>(n.op->FindArgument("self"))].toTensor();
    results.has_strides = padded.is_contiguous();
  }
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOff());
  ConvertOperands(g_, n, &stack);
  try {
    CallHoldingOperands(*kernel, handle, DispatchKeySet(DispatchKey::Meta), &stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  } catch (const c10::Error& error) {
    return absl::InvalidArgumentError(error.what_without_backtrace());
  } catch (const std::exception& error) {  // of a Python kernel that a composite one calls
    return absl::InvalidArgumentError(error.what());
  }
  Flatten(stack, &results.tensors);
  return results;
}

std::optional<c10::IValue> MetaRun::Argument(const Arg& arg, const OpArgument& schema) const {
  switch (arg.kind) {
    case Arg::Kind::kNone:
      return schema.type == ArgType::kTensor ? c10::IValue(at::Tensor()) : c10::IValue();
    case Arg::Kind::kConstant:
      if (arg.constant.isGenerator()) return c10::IValue();  // nothing is drawn, and kernels in Python refuse it
      return arg.constant.isDevice() ? c10::IValue(c10::Device(c10::DeviceType::Meta)) : arg.constant;
    case Arg::Kind::kValue:
      if (!IsStrided(arg.value)) return std::nullopt;
      return TensorOf(arg.value);
    case Arg::Kind::kValueList:
      return List(arg, schema);
    case Arg::Kind::kDim:
      return NumberOf(g_.exprs.Hint(arg.dims[0]), g_.exprs.TypeOf(arg.dims[0]));
    case Arg::Kind::kDimList: {
      c10::List<std::int64_t> list;
      for (const Dim& d : arg.dims) list.push_back(g_.exprs.Hint(d));
      return list;
    }
  }
  return std::nullopt;
}

std::optional<c10::IValue> MetaRun::List(const Arg& arg, const OpArgument& schema) const {
  c10::List<at::Tensor> list;
  c10::List<std::optional<at::Tensor>> optional;
  for (ValueId v : arg.values) {
    if (v != kNoValue && !IsStrided(v)) return std::nullopt;
    optional.push_back(v == kNoValue ? std::nullopt : std::optional<at::Tensor>(TensorOf(v)));
    if (v != kNoValue) list.push_back(TensorOf(v));
  }
  if (schema.type == ArgType::kOptionalTensorList) return optional;
  return list;
}

bool MetaRun::IsStrided(ValueId v) const {
  return g_.value(v).kind == ValueKind::kTensor && g_.value(v).layout == c10::Layout::Strided;
}

at::Tensor MetaRun::TensorOf(ValueId id) const {
  const Value& v = g_.value(id);
  if (v.wrapped_number) {
    at::Tensor number = at::zeros({}, at::TensorOptions().dtype(v.dtype));
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    return number;
  }
  constexpr std::int64_t kElements = std::int64_t{1} << 40;  // of no memory at all
  return at::empty({kElements}, at::TensorOptions().dtype(v.dtype).device(c10::DeviceType::Meta))
      .as_strided(Hints(v.sizes), Hints(v.strides), g_.exprs.Hint(v.offset));
}

std::vector<std::int64_t> MetaRun::Hints(const std::vector<Dim>& dims) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(dims.size());
  for (const Dim& d : dims) numbers.push_back(g_.exprs.Hint(d));
  return numbers;
}

}  // namespace framefuse::ir
