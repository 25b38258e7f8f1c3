// Tile interpreter of the kernel IR: runs where memory cannot be made executable, and is the emitters' oracle.
// Same calling convention as compiled code (abi.h).
#ifndef FRAMEFUSE_BACKENDS_KERNEL_IR_INTERPRET_H_
#define FRAMEFUSE_BACKENDS_KERNEL_IR_INTERPRET_H_

#include "backends/kernel_ir/kernel.h"

namespace framefuse::kernel_ir {

void Interpret(const Kernel& kernel, void** args, std::int64_t begin, std::int64_t end);

}  // namespace framefuse::kernel_ir

#endif  // FRAMEFUSE_BACKENDS_KERNEL_IR_INTERPRET_H_
