#include "symbolic/tracing/check_warnings.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <vector>

#include "backends/graph/boxed_call.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"
#include "symbolic/tracing/warning_watch.h"

namespace framefuse::tracing {
namespace {

// Eager's kernel, on as many dimensions without elements: its own words, with the place in torch that says them. False:
// nobody listens who would say it in Python.
bool SayAsKernel(const OpTraits& traits, c10::ArrayRef<c10::IValue> args) {
  torch::PyWarningHandler::InternalHandler* buffer = BufferOfCaller();
  if (buffer == nullptr) return false;
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOffForMeta());
  const c10::WarningUtils::WarningHandlerGuard guard(buffer);
  torch::jit::Stack stack(args.begin(), args.end());
  for (c10::IValue& v : stack) {
    if (!v.isTensor()) continue;
    const at::Tensor& t = v.toTensor();
    const std::vector<std::int64_t> none(static_cast<std::size_t>(t.dim()), 0);
    v = at::empty(none, t.options().device(c10::DeviceType::CPU));
  }
  ir::CallHoldingOperands(traits.handle, &stack);
  return true;
}

}  // namespace

void CheckWarnings(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                   const std::optional<std::string>& of_probe, const Outputs& outputs) {
  const bool warns = traits.warning != nullptr ? traits.warning->warns(args) : of_probe.has_value();
  const auto is_due = [&] {
    return recorder.around().heard_warnings == HeardWarnings::kAll || IsWarningDue(traits, args);
  };
  const bool each_time = warns && ir::Has(traits.op, ir::OpFact::kWarnsOfSizes);
  const bool is_said =
      each_time && (recorder.around().heard_warnings == HeardWarnings::kDueOfRepeated || SayAsKernel(traits, args));
  if (warns && !is_said && is_due())
    recorder.Break(BreakKind::kWarning, traits, of_probe.value_or("it warns of its arguments"));
  const auto is_experimental = [](const OutputMeta& m) { return m.defined && m.dtype == c10::ScalarType::ComplexHalf; };
  if (std::any_of(outputs.begin(), outputs.end(), is_experimental) && is_due()) {
    recorder.Break(BreakKind::kWarning, traits, "it warns that ComplexHalf is experimental");
  }
  if (!traits.op->mutates() || ir::Has(traits.op, ir::OpFact::kWritesExpanded)) return;
  const auto& schema = traits.op->arguments();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!schema[i].written || !args[i].isTensor() || !args[i].toTensor().defined()) continue;
    if (IsExpanded(args[i].toTensor())) recorder.Break(BreakKind::kWarning, traits, "an expanded tensor is written");
  }
}

}  // namespace framefuse::tracing
