// A boxed call whose stack may be the only owner of the operands. A kernel that returns several of its operands, as
// those with two `out` arguments do, gives references; torch (2.11) reads them after it has dropped the operands from
// the stack. So they are held until the call is over.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_BOXED_CALL_H_
#define FRAMEFUSE_BACKENDS_GRAPH_BOXED_CALL_H_

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace framefuse::ir {

inline void CallHoldingOperands(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const torch::jit::Stack operands = *stack;
  handle.callBoxed(stack);
}

inline void CallHoldingOperands(const c10::KernelFunction& kernel, const c10::OperatorHandle& handle,
                                c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const torch::jit::Stack operands = *stack;
  kernel.callBoxed(handle, keys, stack);
}

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_BOXED_CALL_H_
