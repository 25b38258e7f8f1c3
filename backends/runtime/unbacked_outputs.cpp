#include "backends/runtime/unbacked_outputs.h"

#include <algorithm>

#include "backends/graph/sized_graph.h"
#include "backends/runtime/segmented_executable.h"

namespace framefuse {

void UnbackedOutputs::WatchGuessesOf(const ir::Graph& joint) {
  const auto is_guessed = [](const ir::Node& n) { return n.guessed; };
  if (!empty() && std::any_of(joint.nodes.begin(), joint.nodes.end(), is_guessed)) guessed_ = joint;
}

absl::Status UnbackedOutputs::Take(absl::Span<const at::Tensor> outputs, absl::Span<std::int64_t> symbols) const {
  for (const Unbacked& u : outputs_) symbols[u.symbol] = UnbackedValue(outputs[u.output], u.dim, u.type);
  return guessed_.nodes.empty() ? absl::OkStatus() : ir::CheckGuessed(ir::WithSizes(guessed_, symbols));
}

}  // namespace framefuse
