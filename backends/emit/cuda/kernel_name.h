// KernelName: what a kernel is called on its device, and so in profilers: `ff_mul_erf_sum_0123456789abcdef`.
// Invariant: an identifier, that equal bodies share and others do not: equal programs have equal text.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_KERNEL_NAME_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_KERNEL_NAME_H_

#include <string>

#include "backends/kernel_ir/kernel.h"

namespace framefuse::emit {

// `body`: all that distinguishes it.
std::string KernelName(const kernel_ir::Kernel& kernel, const std::string& body);

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_KERNEL_NAME_H_
