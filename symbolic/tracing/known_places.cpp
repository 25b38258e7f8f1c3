#include "symbolic/tracing/known_places.h"

#include <algorithm>

#include "backends/graph/operators.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

bool SharesMemory(const ir::Graph& graph, ir::ValueId a, ir::ValueId b) {
  const ir::StorageId storage = graph.value(a).storage;
  return a == b || (storage >= 0 && storage == graph.value(b).storage);
}

bool Writes(const ir::Graph& graph, const ir::Node& node, ir::ValueId value) {
  if (!node.op->mutates()) return false;
  const auto is_value = [&](ir::ValueId v) { return v != ir::kNoValue && SharesMemory(graph, v, value); };
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    if (!node.op->arguments()[i].written) continue;
    const ir::Arg& arg = node.args[i];
    if (is_value(arg.value) || std::any_of(arg.values.begin(), arg.values.end(), is_value)) return true;
  }
  return false;
}

}  // namespace

at::Tensor FakeOf(Recorder& recorder, ir::ValueId value) {
  const ir::Value& v = recorder.graph().value(value);
  Dims sizes, strides;
  for (const ir::Dim& d : v.sizes) sizes.push_back(recorder.sizes().ToSymInt(d));
  for (const ir::Dim& d : v.strides) strides.push_back(recorder.sizes().ToSymInt(d));
  return MakeFake(MakeFakeStorage(v.device, 0), sizes, strides, 0, v.dtype, v.device, value, recorder.id());
}

at::Tensor KnownPlaces(Recorder& recorder, const at::Tensor& mask) {
  const FakeImpl* fake = AsFake(mask);
  if (fake == nullptr || !recorder.open_branches.empty()) return at::Tensor();
  const ir::Graph& graph = recorder.graph();
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (Writes(graph, *n, fake->value())) return at::Tensor();
    if (!ir::Is(n->op, ir::OpName::kNonzero) || n->args[0].value != fake->value()) continue;
    const ir::ValueId places = n->outputs[0];
    const bool written =
        std::any_of(graph.nodes.rbegin(), n, [&](const ir::Node& later) { return Writes(graph, later, places); });
    return written ? at::Tensor() : FakeOf(recorder, places);
  }
  return at::Tensor();
}

}  // namespace framefuse::tracing
