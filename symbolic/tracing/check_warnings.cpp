// Recorder::CheckWarnings: an operator that warns is left to Python, where the warning has its line and comes each
// time.
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

void Recorder::CheckWarnings(const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                             const std::optional<std::string>& of_probe, const Outputs& outputs) {
  const bool warns = traits.warning != nullptr ? traits.warning->warns(args) : of_probe.has_value();
  if (warns) Break(BreakKind::kWarning, traits, of_probe.value_or("it warns of its arguments"));
  for (const OutputMeta& meta : outputs) {
    if (meta.defined && meta.dtype == c10::ScalarType::ComplexHalf) {
      Break(BreakKind::kWarning, traits, "it warns that ComplexHalf is experimental");
    }
  }
  const std::string& name = traits.op->name();
  if (!traits.op->mutates() || name.starts_with("aten.fill_") || name == "aten.zero_") return;
  const auto& schema = traits.op->arguments();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!schema[i].written || !args[i].isTensor() || !args[i].toTensor().defined()) continue;
    if (IsExpanded(args[i].toTensor())) Break(BreakKind::kWarning, traits, "an expanded tensor is written");
  }
}

}  // namespace framefuse::tracing
