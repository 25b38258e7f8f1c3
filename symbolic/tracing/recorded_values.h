// recorded_values: values that a recording has, found again: the node that made one, and a fake that stands for it.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_VALUES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_VALUES_H_

#include <ATen/core/Tensor.h>

#include "backends/graph/graph.h"

namespace framefuse::tracing {

class Recorder;

// The last one, if several did; null: it is an input's, or a constant's.
const ir::Node* MakerOf(const ir::Graph& graph, ir::ValueId value);
// With memory of its own: as good as the tensor where nobody writes.
at::Tensor FakeOf(Recorder& recorder, ir::ValueId value);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_VALUES_H_
