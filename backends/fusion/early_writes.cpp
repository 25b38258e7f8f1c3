#include "backends/fusion/early_writes.h"

#include <algorithm>

#include "backends/graph/collectives.h"
#include "backends/graph/input_writes.h"
#include "backends/runtime/in_place_form.h"
#include "common/index.h"

namespace framefuse::fusion {
namespace {

using ir::NodeIndex;
using ir::ValueId;

bool IsReadOnce(const ir::Graph& graph, ValueId input) {
  int reads = 0;
  for (const ir::Node& n : graph.nodes) {
    ir::ForEachUse(n, [&](ValueId v) { reads += v == input ? 1 : 0; });
  }
  for (const ir::Output& o : graph.outputs) reads += o.value == input ? 1 : 0;
  return reads == 1;
}

bool Runs(const Step& step, NodeIndex node) {
  const absl::Span<const NodeIndex> nodes = step.Operators();
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

std::size_t FindEarlyWrite(const ir::Graph& graph, const std::vector<std::unique_ptr<Step>>& steps, ValueId result,
                           ValueId input) {
  const NodeIndex maker = graph.Definitions()[At(result)];
  if (maker == ir::kNoNode) return steps.size();
  const ir::Node& writer = graph.nodes[At(maker)];
  const bool writes =
      !ir::SpeaksToOthers(writer) && InPlaceFormOf(graph, writer).op != nullptr && writer.args[0].value == input;
  if (!writes || !IsReadOnce(graph, input)) return steps.size();
  std::size_t s = 0;
  while (s < steps.size() && !Runs(*steps[s], maker)) ++s;
  // Kernels share nodes: what one has checked holds for the others.
  const auto has_run = [&](NodeIndex n) {
    return std::any_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(s),
                       [&](const auto& step) { return Runs(*step, n); });
  };
  const auto raises = [&](NodeIndex n) {
    const ir::Node& node = graph.nodes[At(n)];
    return ir::MayRaise(graph, node) && !ChecksTheSame(graph, writer, node) && !has_run(n);
  };
  for (std::size_t later = s; later < steps.size(); ++later) {
    const absl::Span<const NodeIndex> nodes = steps[later]->Operators();
    if (nodes.empty() && !steps[later]->IsKernel()) return steps.size();
    const auto from = later > s ? nodes.begin() : std::find(nodes.begin(), nodes.end(), maker) + 1;
    if (std::any_of(from, nodes.end(), raises)) return steps.size();
  }
  return s;
}

}  // namespace framefuse::fusion
