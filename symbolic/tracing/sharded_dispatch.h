// Operators on DTensors (sharded_tensors.h).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_DISPATCH_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_DISPATCH_H_

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// Runs the operator if a DTensor is among its arguments; false: none is. The GIL need not be held.
bool RunSharded(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SHARDED_DISPATCH_H_
