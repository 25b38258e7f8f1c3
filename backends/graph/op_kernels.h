// The kernels that are registered for an operator, those that a later registration shadows, too.
// Python's meta kernels (torch._meta_registrations) shadow torch's C++ ones in the dispatcher, and take 10 to 100 times
// as long. A kernel lives as long as its registration: torch's own for ever.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_OP_KERNELS_H_
#define FRAMEFUSE_BACKENDS_GRAPH_OP_KERNELS_H_

#include <ATen/core/dispatch/Dispatcher.h>

namespace framefuse::ir {

// The newest usable kernel registered for `key` that is (or is not) a Python one; null if there is none.
const c10::KernelFunction* FindKernel(const c10::OperatorHandle& handle, c10::DispatchKey key, bool python);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_OP_KERNELS_H_
