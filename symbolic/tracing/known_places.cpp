#include "symbolic/tracing/known_places.h"

#include <algorithm>

#include "backends/graph/input_writes.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/recorded_values.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

at::Tensor KnownPlaces(Recorder& recorder, const at::Tensor& mask) {
  const FakeImpl* fake = AsFake(mask);
  if (fake == nullptr || recorder.branches().any_open()) return at::Tensor();
  const ir::Graph& graph = recorder.graph();
  const ir::StorageId memory = graph.value(fake->value()).storage;
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (ir::Writes(graph, *n, memory)) return at::Tensor();
    if (!ir::Is(n->op, ir::OpName::kNonzero) || n->args[0].value != fake->value()) continue;
    const ir::ValueId places = n->outputs[0];
    const ir::StorageId told = graph.value(places).storage;
    const bool written =
        std::any_of(graph.nodes.rbegin(), n, [&](const ir::Node& later) { return ir::Writes(graph, later, told); });
    return written ? at::Tensor() : FakeOf(recorder, places);
  }
  return at::Tensor();
}

}  // namespace framefuse::tracing
