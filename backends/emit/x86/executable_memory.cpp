#include "backends/emit/x86/executable_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace framefuse::emit {

absl::StatusOr<ExecutableMemory> ExecutableMemory::Create(absl::Span<const unsigned char> code) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t size = (code.size() + page - 1) / page * page;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("mmap: ", std::strerror(errno)));
  std::memcpy(data, code.data(), code.size());
  if (mprotect(data, size, PROT_READ | PROT_EXEC) != 0) {
    const int error = errno;
    munmap(data, size);
    return absl::PermissionDeniedError(absl::StrCat("memory cannot be made executable: ", std::strerror(error)));
  }
  ExecutableMemory memory;
  memory.data_ = data;
  memory.mapped_ = size;
  return memory;
}

ExecutableMemory::ExecutableMemory(ExecutableMemory&& other) noexcept { *this = std::move(other); }

ExecutableMemory& ExecutableMemory::operator=(ExecutableMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

ExecutableMemory::~ExecutableMemory() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

}  // namespace framefuse::emit
