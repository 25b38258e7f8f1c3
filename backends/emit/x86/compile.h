// Machine code for a kernel, made in this process.
#ifndef FRAMEFUSE_BACKENDS_EMIT_X86_COMPILE_H_
#define FRAMEFUSE_BACKENDS_EMIT_X86_COMPILE_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "backends/emit/x86/executable_memory.h"
#include "backends/kernel_ir/abi.h"

namespace framefuse::emit {

struct MachineCode {
  kernel_ir::KernelFunction function = nullptr;
  std::size_t bytes = 0;
  ExecutableMemory memory;
  kernel_ir::Kernel expanded;  // calls out of the code refer to its instructions
};

// True if this processor has what the emitter needs (AVX2, FMA, F16C).
bool HostSupportsX86Emitter();

// True if it has AVX-512's F, DQ, BW and VL.
bool HostHasAvx512();

enum class VectorBits : int { k256 = 256, k512 = 512 };

// Fails (Unimplemented, PermissionDenied …) where the kernel must be interpreted instead.
absl::StatusOr<std::unique_ptr<MachineCode>> CompileX86(const kernel_ir::Kernel& kernel, VectorBits bits);

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_X86_COMPILE_H_
