#include "backends/emit/x86/compile.h"

#include <xbyak/xbyak_util.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "backends/emit/expand_math.h"
#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {
namespace {

constexpr std::size_t kCapacity = 512 * 1024;

struct alignas(64) CodeBuffer {
  unsigned char bytes[kCapacity];
};

}  // namespace

bool HostSupportsX86Emitter() {
  static const bool supported = [] {
    const Xbyak::util::Cpu cpu;
    return cpu.has(Xbyak::util::Cpu::tAVX2) && cpu.has(Xbyak::util::Cpu::tFMA) && cpu.has(Xbyak::util::Cpu::tF16C);
  }();
  return supported;
}

bool HostHasAvx512() {
  static const bool has = [] {
    using Xbyak::util::Cpu;
    const Cpu cpu;
    return cpu.has(Cpu::tAVX512F) && cpu.has(Cpu::tAVX512DQ) && cpu.has(Cpu::tAVX512BW) && cpu.has(Cpu::tAVX512VL);
  }();
  return has && HostSupportsX86Emitter();
}

absl::StatusOr<std::unique_ptr<MachineCode>> CompileX86(const kernel_ir::Kernel& kernel, VectorBits bits) {
  if (!HostSupportsX86Emitter()) return absl::UnimplementedError("this processor lacks AVX2, FMA or F16C");
  if (absl::Status status = kernel_ir::Verify(kernel); !status.ok()) return status;
  auto code = std::make_unique<MachineCode>();
  code->expanded = ExpandMath(kernel, bits == VectorBits::k512);
  const auto buffer = std::unique_ptr<CodeBuffer>(new CodeBuffer);
  try {
    Emitter emitter(code->expanded, bits == VectorBits::k512, buffer->bytes, kCapacity);
    if (!emitter.Run())
      return absl::UnimplementedError(
          "more reductions in a loop than registers, or a form of the nest that is not emitted");
    code->bytes = emitter.getSize();
  } catch (const Xbyak::Error& error) {
    return absl::InternalError(absl::StrCat("kernel ", kernel.name, ": ", error.what()));
  }
  auto memory = ExecutableMemory::Create({buffer->bytes, code->bytes});
  if (!memory.ok()) return memory.status();
  code->memory = *std::move(memory);
  code->function = reinterpret_cast<kernel_ir::KernelFunction>(const_cast<void*>(code->memory.data()));
  return code;
}

}  // namespace framefuse::emit
