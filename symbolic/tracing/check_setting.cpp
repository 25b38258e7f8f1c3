#include "symbolic/tracing/check_setting.h"

#include <algorithm>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

bool IsView(const OpTraits& traits) {
  const std::vector<c10::Argument>& returns = traits.handle.schema().returns();
  return std::any_of(returns.begin(), returns.end(),
                     [](const c10::Argument& r) { return r.alias_info() != nullptr && !r.alias_info()->isWrite(); });
}

// Of floats alone comes no other float by default.
bool HasFloatsOnly(const OpTraits& traits, const torch::jit::Stack& stack) {
  bool any = false;
  for (const c10::IValue& v : torch::jit::last(stack, static_cast<std::size_t>(traits.num_arguments))) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) continue;
    if (!t.is_floating_point()) return false;
    any = true;
  }
  return any;
}

}  // namespace

// Views compute nothing. Operators of elements have one kernel each, whatever backends are on.
void CheckSetting(Recorder& recorder, const OpTraits& traits, const torch::jit::Stack& stack) {
  if (IsView(traits)) return;
  const bool by_dtype = recorder.around().set_on_the_way == SetOnTheWay::kDefaultDtype;
  if (traits.handle.hasTag(at::Tag::pointwise) && (!by_dtype || HasFloatsOnly(traits, stack))) return;
  recorder.Break(BreakKind::kSetting, traits,
                 "it goes by a setting that was changed between it and operators before it");
}

}  // namespace framefuse::tracing
