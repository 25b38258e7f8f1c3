// Recorder::CheckWarnings: an operator that warns is left to Python, where the warning has its line and comes each
// time. What torch has said already, and says once a process, is none (due_warnings.h).
#include <algorithm>

#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

void Recorder::CheckWarnings(const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                             const std::optional<std::string>& of_probe, const Outputs& outputs) {
  const bool warns = traits.warning != nullptr ? traits.warning->warns(args) : of_probe.has_value();
  const auto is_due = [&] { return !hears_due_warnings || IsWarningDue(traits, args); };
  if (warns && is_due()) Break(BreakKind::kWarning, traits, of_probe.value_or("it warns of its arguments"));
  const auto is_experimental = [](const OutputMeta& m) { return m.defined && m.dtype == c10::ScalarType::ComplexHalf; };
  if (std::any_of(outputs.begin(), outputs.end(), is_experimental) && is_due()) {
    Break(BreakKind::kWarning, traits, "it warns that ComplexHalf is experimental");
  }
  if (!traits.op->mutates() || ir::Has(traits.op, ir::OpFact::kWritesExpanded)) return;
  const auto& schema = traits.op->arguments();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!schema[i].written || !args[i].isTensor() || !args[i].toTensor().defined()) continue;
    if (IsExpanded(args[i].toTensor())) Break(BreakKind::kWarning, traits, "an expanded tensor is written");
  }
}

}  // namespace framefuse::tracing
