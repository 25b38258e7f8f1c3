// python_operands: operators on tensors that have a __torch_dispatch__ (DTensors), which is to run before they are
// recorded. Up to torch 2.12 the dispatch key Fake stands above Python, so that the recorder is asked first.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_PYTHON_OPERANDS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_PYTHON_OPERANDS_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace framefuse::tracing {

// True: an operand's __torch_dispatch__ has run, and the stack holds its results. Operators that it calls on local
// tensors come to the recorder.
[[nodiscard]] bool HandOnToPython(const c10::OperatorHandle& handle, torch::jit::Stack* stack);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_PYTHON_OPERANDS_H_
