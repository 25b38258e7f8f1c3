// Driver and Nvrtc: the functions of libcuda and libnvrtc that are used, found at run time, so that one build serves
// machines with and without a GPU. No header of CUDA is needed.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_DRIVER_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_DRIVER_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse::cuda {

using Result = int;  // CUresult, nvrtcResult: 0 is success
using Context = void*;
using Module = void*;
using Function = void*;
using Stream = void*;

struct Driver {
  Result (*Init)(unsigned) = nullptr;
  Result (*GetErrorString)(Result, const char**) = nullptr;
  Result (*DeviceGet)(int*, int) = nullptr;
  Result (*DeviceGetAttribute)(int*, int, int) = nullptr;
  Result (*DevicePrimaryCtxRetain)(Context*, int) = nullptr;
  Result (*CtxGetCurrent)(Context*) = nullptr;
  Result (*CtxPushCurrent)(Context) = nullptr;
  Result (*CtxPopCurrent)(Context*) = nullptr;
  Result (*ModuleLoadData)(Module*, const void*) = nullptr;
  Result (*ModuleUnload)(Module) = nullptr;
  Result (*ModuleGetFunction)(Function*, Module, const char*) = nullptr;
  Result (*StreamIsCapturing)(Stream, int*) = nullptr;
  Result (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                         void**) = nullptr;

  absl::Status Check(Result result, const char* what) const;
};

struct Nvrtc {
  using Program = void*;
  Result (*Version)(int*, int*) = nullptr;
  Result (*CreateProgram)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  Result (*CompileProgram)(Program, int, const char* const*) = nullptr;
  Result (*GetProgramLogSize)(Program, std::size_t*) = nullptr;
  Result (*GetProgramLog)(Program, char*) = nullptr;
  Result (*GetCubinSize)(Program, std::size_t*) = nullptr;
  Result (*GetCubin)(Program, char*) = nullptr;
  Result (*DestroyProgram)(Program*) = nullptr;
  const char* (*GetErrorString)(Result) = nullptr;
  int major = 0, minor = 0;
};

// The first call looks; what it finds, or why nothing was found, stays.
absl::StatusOr<const Driver*> GetDriver();
// Looked for by name, beside the CUDA libraries that are loaded (pip's folders), and under /usr/local/cuda.
absl::StatusOr<const Nvrtc*> GetNvrtc();

// A device that kernels can be launched on: its architecture (90 for 9.0), how many multiprocessors it has, and torch's
// context there.
struct Device {
  int index = 0;
  int architecture = 0;
  int processors = 0;
  Context context = nullptr;
};
absl::StatusOr<const Device*> GetDevice(int index);

// Makes a device's context current, and what was current before again.
class ContextGuard {
 public:
  explicit ContextGuard(const Device& device);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  bool pushed_ = false;
};

// torch's current stream of the calling thread.
absl::StatusOr<Stream> CurrentStream(int device);

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_DRIVER_H_
