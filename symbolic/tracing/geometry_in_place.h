// Operators that change a tensor's own sizes and strides: t_, squeeze_, as_strided_, resize_ … A view is recorded, and
// the tensor is that value from then on. Of an input the method is called again behind the graph
// (GeometryWrite). Invariant: no memory is allocated for it; what would need more breaks.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_GEOMETRY_IN_PLACE_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_GEOMETRY_IN_PLACE_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace framefuse::tracing {

class Recorder;

bool BreakOnMetadata(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
bool ViewInPlace(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
bool ResizeInPlace(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);
bool ResizeAsInPlace(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_GEOMETRY_IN_PLACE_H_
