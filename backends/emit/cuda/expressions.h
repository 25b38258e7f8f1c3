// One instruction of the kernel IR as an expression of CUDA C++; operands are v<id>.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_EXPRESSIONS_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_EXPRESSIONS_H_

#include <string>

#include "backends/kernel_ir/kernel.h"

namespace framefuse::emit {

std::string LaneType(kernel_ir::Type type);
std::string MemoryType(kernel_ir::DType dtype);
// Leaves (but not kIota, kParam), arithmetic, comparisons, bits, conversions and functions.
std::string Expression(const kernel_ir::Kernel& kernel, const kernel_ir::Inst& inst);
// The functor of the prelude that combines two values of a reduction, and the value that changes nothing.
std::string ReductionFunctor(kernel_ir::Op op);
std::string ReductionIdentity(const kernel_ir::Inst& inst);

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_EXPRESSIONS_H_
