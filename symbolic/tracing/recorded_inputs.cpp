#include "symbolic/tracing/recorded_inputs.h"

#include <c10/core/InferenceMode.h>

namespace framefuse::tracing {

void RecordedInputs::Mark(const ir::Graph& graph, ir::ValueId value, bool is_inference) {
  if (is_inference) inference_storages_.insert(graph.value(value).storage);
  is_input_.resize(graph.values.size(), false);
  is_input_[static_cast<std::size_t>(value)] = true;
}

bool RecordedInputs::Contains(ir::ValueId value) const {
  return static_cast<std::size_t>(value) < is_input_.size() && is_input_[static_cast<std::size_t>(value)];
}

std::optional<std::string_view> RecordedInputs::RefusalOfWrite(ir::StorageId storage) {
  if (!memory_.Write(storage)) return "the memory of an input is that of another input's storage, too";
  // Eager refuses some of these writes, by the version counter that some aliases have.
  if (inference_storages_.contains(storage) && !c10::InferenceMode::is_enabled()) {
    return "an inference tensor is written outside of inference mode";
  }
  return std::nullopt;
}

}  // namespace framefuse::tracing
