#include "symbolic/tracing/python_operands.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreterHooks.h>

#include <algorithm>

namespace framefuse::tracing {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

constexpr bool kRecorderIsAskedFirst = DispatchKey::Fake > DispatchKey::Python;

bool HasDispatch(const at::Tensor& t) { return t.defined() && t.key_set().has(DispatchKey::Python); }

bool HasDispatch(const c10::IValue& value) {
  if (value.isTensor()) return HasDispatch(value.toTensor());
  if (!value.isList()) return false;
  const auto items = value.toListRef();
  return std::any_of(items.begin(), items.end(), [](const c10::IValue& v) { return HasDispatch(v); });
}

// What torch's own fallback excludes, but for Fake, with which the operators on local tensors are recorded. By XOR, so
// that no bits of backends are left: a guard would not take those away again.
DispatchKeySet AbovePython() {
  const DispatchKeySet others = DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::Python) |
                                DispatchKeySet({DispatchKey::Python, DispatchKey::Fake});
  return DispatchKeySet(DispatchKeySet::FULL) ^ others;
}

}  // namespace

bool HandOnToPython(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  if constexpr (!kRecorderIsAskedFirst) return false;
  const auto operands = torch::jit::last(*stack, handle.schema().arguments().size());
  if (!std::any_of(operands.begin(), operands.end(), [](const c10::IValue& v) { return HasDispatch(v); })) return false;
  const c10::impl::ExcludeDispatchKeyGuard below(AbovePython());
  (*c10::impl::getGlobalPyInterpreter())->dispatch(handle, stack);
  return true;
}

}  // namespace framefuse::tracing
