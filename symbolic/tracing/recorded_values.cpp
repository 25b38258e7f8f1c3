#include "symbolic/tracing/recorded_values.h"

#include <algorithm>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

const ir::Node* MakerOf(const ir::Graph& graph, ir::ValueId value) {
  const auto makes = [value](const ir::Node& n) {
    return std::find(n.outputs.begin(), n.outputs.end(), value) != n.outputs.end();
  };
  const auto maker = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), makes);
  return maker == graph.nodes.rend() ? nullptr : &*maker;
}

at::Tensor FakeOf(Recorder& recorder, ir::ValueId value) {
  const ir::Value& v = recorder.graph().value(value);
  Dims sizes, strides;
  for (const ir::Dim& d : v.sizes) sizes.push_back(recorder.sizes().ToSymInt(d));
  for (const ir::Dim& d : v.strides) strides.push_back(recorder.sizes().ToSymInt(d));
  return MakeFake(MakeFakeStorage(v.device, 0), sizes, strides, 0, v.dtype, v.device, value, recorder.id());
}

}  // namespace framefuse::tracing
