// CpuKernel: a kernel that can be called on this processor, as machine code or through the interpreter.
// Equal bodies share one. Immutable and thread-safe.
#ifndef FRAMEFUSE_BACKENDS_CPU_RUNTIME_KERNEL_H_
#define FRAMEFUSE_BACKENDS_CPU_RUNTIME_KERNEL_H_

#include <memory>
#include <string>
#include <string_view>

#include "backends/emit/x86/compile.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::cpu {

// kBest: machine code of the width that DefaultVectors says.
enum class Engine : std::uint8_t { kBest, kAvx2, kAvx512, kInterpreter };
Engine DefaultVectors();

class CpuKernel {
 public:
  // Compiles, or returns the kernel made earlier for an equal body that is still in use.
  static absl::StatusOr<std::shared_ptr<const CpuKernel>> Get(const kernel_ir::Kernel& kernel,
                                                              Engine engine = Engine::kBest,
                                                              std::string_view what = "a kernel");  // for logs

  void Call(void** args, std::int64_t begin, std::int64_t end) const;
  const kernel_ir::Kernel& ir() const { return ir_; }
  bool is_machine_code() const { return code_ != nullptr; }
  std::size_t code_bytes() const { return code_ == nullptr ? 0 : code_->bytes; }
  double compile_ms() const { return compile_ms_; }
  // Why it is interpreted; empty for machine code.
  const std::string& reason() const { return reason_; }

 private:
  kernel_ir::Kernel ir_;
  std::unique_ptr<emit::MachineCode> code_;
  std::string reason_;
  double compile_ms_ = 0;
};

}  // namespace framefuse::cpu

#endif  // FRAMEFUSE_BACKENDS_CPU_RUNTIME_KERNEL_H_
