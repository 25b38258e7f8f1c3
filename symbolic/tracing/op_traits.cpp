#include "symbolic/tracing/op_traits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "backends/graph/op_kernels.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/special_ops.h"

namespace framefuse::tracing {
namespace {

using ir::FindKernel;

// "aten.add_.Tensor" → "aten.add.Tensor"; empty if the name is not of an in-place operator.
std::string FunctionalName(const c10::OperatorHandle& handle) {
  const c10::OperatorName& name = handle.operator_name();
  if (name.name.empty() || name.name.back() != '_' || name.name.ends_with("__")) return {};
  std::string functional = ir::InternOp(handle)->name();
  functional.erase(name.name.size() - 2, 1);  // a point stands where torch has two colons
  return functional;
}

// Where the functional form has no meta kernel in C++, that of the in-place form was generated: it returns its first
// argument, whatever the others are.
bool ChecksNothing(const c10::OperatorHandle& handle) {
  const std::string functional = FunctionalName(handle);
  const ir::OpId op = ir::InternOp(handle);
  if (FindKernel(handle, c10::DispatchKey::Meta, false) == nullptr || functional.empty() ||
      !ir::Has(op, ir::OpFact::kAten) || ir::Has(op, ir::OpFact::kTakesAnyShape))
    return false;
  const absl::StatusOr<ir::OpId> form = ir::FindOp(functional);
  return !form.ok() || FindKernel((*form)->handle(), c10::DispatchKey::Meta, false) == nullptr;
}

void ChooseMetaKernel(OpTraits* traits) {
  using c10::DispatchKey;
  auto use = [&](MetaSource source, DispatchKey key, bool python) {
    const c10::KernelFunction* k = FindKernel(traits->handle, key, python);
    if (k == nullptr) return false;
    traits->meta_source = source;
    traits->meta = *k;
    return true;
  };
  if (ChecksNothing(traits->handle) && use(MetaSource::kPython, DispatchKey::Meta, true)) return;
  if (use(MetaSource::kCpp, DispatchKey::Meta, false)) return;
  // It would speak to other processes. What waits for them finds nothing to wait for.
  const bool speaks = traits->op->has_side_effect() && !ir::Is(traits->op, ir::OpName::kWaitTensor);
  if (speaks && use(MetaSource::kPython, DispatchKey::Meta, true)) return;
  // A composite kernel is what eager runs only where the device has none of its own.
  const bool has_device_kernel = FindKernel(traits->handle, DispatchKey::CPU, false) != nullptr ||
                                 FindKernel(traits->handle, DispatchKey::CUDA, false) != nullptr;
  if (has_device_kernel && use(MetaSource::kPython, DispatchKey::Meta, true)) return;
  if (use(MetaSource::kComposite, DispatchKey::CompositeExplicitAutogradNonFunctional, false)) return;
  if (use(MetaSource::kComposite, DispatchKey::CompositeExplicitAutograd, false)) return;
  if (use(MetaSource::kPython, DispatchKey::Meta, true)) return;
  use(MetaSource::kPython, DispatchKey::CompositeExplicitAutograd, true);
}

std::unique_ptr<OpTraits> Create(const c10::OperatorHandle& handle) {
  auto traits = std::make_unique<OpTraits>(handle);
  traits->op = ir::InternOp(handle);
  traits->num_arguments = static_cast<int>(traits->op->arguments().size());
  traits->num_returns = static_cast<int>(traits->op->returns().size());
  traits->device_argument = traits->op->FindArgument("device");
  traits->layout_argument = traits->op->FindArgument("layout");
  for (const ir::OpReturn& r : traits->op->returns()) traits->returns_number |= r.type == ir::ArgType::kOther;
  const ir::OpName name = ir::NameOf(traits->op);
  traits->is_foreach = ir::Has(traits->op, ir::OpFact::kForeach);
  traits->special = FindSpecial(*traits->op);
  traits->shape = FindShapeFunction(name);
  traits->refusal = FindRefusal(name);
  traits->warning = FindWarning(name);
  const auto& returns = traits->op->returns();
  const bool inplace = returns.size() == 1 && returns[0].written_argument == 0;
  if (inplace && !handle.hasTag(at::Tag::inplace_view)) {
    const std::string functional = FunctionalName(handle);
    if (!functional.empty()) traits->shape = FindShapeFunction(ir::NameOf(functional));
    traits->is_plain_inplace = traits->shape != nullptr || ir::Has(traits->op, ir::OpFact::kTakesAnyShape);
  }
  if (const c10::KernelFunction* k = FindKernel(handle, c10::DispatchKey::CompositeImplicitAutograd, false)) {
    // Some operators have a kernel for the device beside it (silu_backward); eager runs that one.
    traits->decomposition = *k;
    traits->is_composite = FindKernel(handle, c10::DispatchKey::CPU, false) == nullptr &&
                           FindKernel(handle, c10::DispatchKey::CUDA, false) == nullptr;
  }
  ChooseMetaKernel(traits.get());
  return traits;
}

}  // namespace

const OpTraits& TraitsOf(const c10::OperatorHandle& handle) {
  static auto* mutex = new std::shared_mutex;
  static auto* table = new std::unordered_map<c10::OperatorHandle, std::unique_ptr<OpTraits>>;
  {
    std::shared_lock lock(*mutex);
    auto it = table->find(handle);
    // Without a meta kernel, look again: a library may have registered one since.
    if (it != table->end() && it->second->meta_source != MetaSource::kNone) return *it->second;
  }
  std::unique_lock lock(*mutex);
  std::unique_ptr<OpTraits>& traits = (*table)[handle];
  if (traits == nullptr) {
    traits = Create(handle);
  } else if (traits->meta_source == MetaSource::kNone) {
    ChooseMetaKernel(traits.get());
  }
  return *traits;
}

}  // namespace framefuse::tracing
