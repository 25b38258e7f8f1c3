// A block of executable memory, written once and then read-only (never writable and executable together).
#ifndef FRAMEFUSE_BACKENDS_EMIT_X86_EXECUTABLE_MEMORY_H_
#define FRAMEFUSE_BACKENDS_EMIT_X86_EXECUTABLE_MEMORY_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace framefuse::emit {

class ExecutableMemory {
 public:
  // Fails where the system forbids making memory executable.
  static absl::StatusOr<ExecutableMemory> Create(absl::Span<const unsigned char> code);

  ExecutableMemory() = default;
  ExecutableMemory(ExecutableMemory&& other) noexcept;
  ExecutableMemory& operator=(ExecutableMemory&& other) noexcept;
  ~ExecutableMemory();

  const void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t mapped_ = 0;
};

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_X86_EXECUTABLE_MEMORY_H_
