// Linker: nvJitLink, which assembles PTX without a lock, so that kernels are made side by side; NVRTC's front end takes
// one program at a time. Found at run time, as NVRTC is.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_LINKER_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_LINKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cuda_runtime/driver.h"

namespace framefuse::cuda {

struct Linker {
  using Handle = void*;
  Result (*Version)(unsigned*, unsigned*) = nullptr;
  Result (*Create)(Handle*, std::uint32_t, const char**) = nullptr;
  Result (*AddData)(Handle, int, const void*, std::size_t, const char*) = nullptr;
  Result (*Complete)(Handle) = nullptr;
  Result (*GetErrorLogSize)(Handle, std::size_t*) = nullptr;
  Result (*GetErrorLog)(Handle, char*) = nullptr;
  Result (*GetLinkedCubinSize)(Handle, std::size_t*) = nullptr;
  Result (*GetLinkedCubin)(Handle, void*) = nullptr;
  Result (*Destroy)(Handle*) = nullptr;
  unsigned major = 0, minor = 0;
};

// The first call looks; what it finds, or why nothing was found, stays.
absl::StatusOr<const Linker*> GetLinker();

std::vector<std::string> LinkerOptions(const Linker& linker, int architecture);
// PTX to a cubin; the error has the assembler's log. From several threads at a time.
absl::StatusOr<std::string> Assemble(const Linker& linker, const std::string& ptx,
                                     const std::vector<std::string>& options);

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_LINKER_H_
