#include "backends/cuda_runtime/driver.h"

#include <c10/core/Stream.h>
#include <dlfcn.h>

#include <array>
#include <mutex>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "backends/cuda_runtime/libraries.h"

namespace framefuse::cuda {
namespace {

absl::StatusOr<const Driver*> LoadDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError(absl::StrCat("no CUDA driver: ", dlerror()));
  static Driver d;
  const bool found = FindFunction(library, "cuInit", &d.Init) &&
                     FindFunction(library, "cuGetErrorString", &d.GetErrorString) &&
                     FindFunction(library, "cuDeviceGet", &d.DeviceGet) &&
                     FindFunction(library, "cuDeviceGetAttribute", &d.DeviceGetAttribute) &&
                     FindFunction(library, "cuDevicePrimaryCtxRetain", &d.DevicePrimaryCtxRetain) &&
                     FindFunction(library, "cuCtxGetCurrent", &d.CtxGetCurrent) &&
                     FindFunction(library, "cuCtxPushCurrent_v2", &d.CtxPushCurrent) &&
                     FindFunction(library, "cuCtxPopCurrent_v2", &d.CtxPopCurrent) &&
                     FindFunction(library, "cuModuleLoadData", &d.ModuleLoadData) &&
                     FindFunction(library, "cuModuleUnload", &d.ModuleUnload) &&
                     FindFunction(library, "cuModuleGetFunction", &d.ModuleGetFunction) &&
                     FindFunction(library, "cuStreamIsCapturing", &d.StreamIsCapturing) &&
                     FindFunction(library, "cuLaunchKernel", &d.LaunchKernel);
  if (!found) return absl::UnavailableError("libcuda lacks a function that is needed");
  if (absl::Status status = d.Check(d.Init(0), "cuInit"); !status.ok()) return status;
  return &d;
}

absl::StatusOr<const Nvrtc*> LoadNvrtc() {
  void* library =
      OpenCudaLibrary({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}, "cuda_nvrtc");
  if (library == nullptr) return absl::UnavailableError("libnvrtc was not found");
  static Nvrtc n;
  const bool found = FindFunction(library, "nvrtcVersion", &n.Version) &&
                     FindFunction(library, "nvrtcCreateProgram", &n.CreateProgram) &&
                     FindFunction(library, "nvrtcCompileProgram", &n.CompileProgram) &&
                     FindFunction(library, "nvrtcGetProgramLogSize", &n.GetProgramLogSize) &&
                     FindFunction(library, "nvrtcGetProgramLog", &n.GetProgramLog) &&
                     FindFunction(library, "nvrtcGetCUBINSize", &n.GetCubinSize) &&
                     FindFunction(library, "nvrtcGetCUBIN", &n.GetCubin) &&
                     FindFunction(library, "nvrtcDestroyProgram", &n.DestroyProgram) &&
                     FindFunction(library, "nvrtcGetErrorString", &n.GetErrorString);
  if (!found) return absl::UnavailableError("libnvrtc lacks a function that is needed");
  n.Version(&n.major, &n.minor);
  return &n;
}

absl::StatusOr<Device> OpenDevice(int index) {
  absl::StatusOr<const Driver*> driver = GetDriver();
  if (!driver.ok()) return driver.status();
  const Driver& d = **driver;
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  constexpr int kProcessors = 16;          // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  int handle = 0, major = 0, minor = 0;
  Device device;
  device.index = index;
  for (const auto& [result, what] :
       {std::pair{d.DeviceGet(&handle, index), "cuDeviceGet"},
        std::pair{d.DeviceGetAttribute(&major, kMajor, handle), "cuDeviceGetAttribute"},
        std::pair{d.DeviceGetAttribute(&minor, kMinor, handle), "cuDeviceGetAttribute"},
        std::pair{d.DeviceGetAttribute(&device.processors, kProcessors, handle), "cuDeviceGetAttribute"},
        std::pair{d.DevicePrimaryCtxRetain(&device.context, handle), "cuDevicePrimaryCtxRetain"}}) {
    if (absl::Status status = d.Check(result, what); !status.ok()) return status;
  }
  device.architecture = major * 10 + minor;
  return device;
}

}  // namespace

absl::Status Driver::Check(Result result, const char* what) const {
  if (result == 0) return absl::OkStatus();
  const char* text = nullptr;
  GetErrorString(result, &text);
  return absl::UnavailableError(absl::StrCat(what, ": ", text != nullptr ? text : "unknown error", " (", result, ")"));
}

absl::StatusOr<const Driver*> GetDriver() {
  static const absl::StatusOr<const Driver*>* driver = new absl::StatusOr<const Driver*>(LoadDriver());
  return *driver;
}

absl::StatusOr<const Nvrtc*> GetNvrtc() {
  static const absl::StatusOr<const Nvrtc*>* nvrtc = new absl::StatusOr<const Nvrtc*>(LoadNvrtc());
  return *nvrtc;
}

absl::StatusOr<const Device*> GetDevice(int index) {
  constexpr int kMost = 64;
  if (index < 0 || index >= kMost) return absl::UnavailableError(absl::StrCat("no CUDA device ", index));
  static std::array<std::once_flag, kMost> once;
  static auto* devices = new std::array<absl::StatusOr<Device>, kMost>;
  const auto i = static_cast<std::size_t>(index);
  std::call_once(once[i], [&] { (*devices)[i] = OpenDevice(index); });
  if (!(*devices)[i].ok()) return (*devices)[i].status();
  return &*(*devices)[i];
}

ContextGuard::ContextGuard(const Device& device) {
  const Driver& d = **GetDriver();
  Context current = nullptr;
  d.CtxGetCurrent(&current);
  if (current != device.context) pushed_ = d.CtxPushCurrent(device.context) == 0;
}

ContextGuard::~ContextGuard() {
  Context ignored = nullptr;
  if (pushed_) (*GetDriver())->CtxPopCurrent(&ignored);
}

absl::StatusOr<Stream> CurrentStream(int device) {
  // c10::cuda::getCurrentCUDAStream(index) and CUDAStream::stream(); a CUDAStream holds one c10::Stream.
  static_assert(std::is_trivially_copyable_v<c10::Stream>);
  struct Functions {
    c10::Stream (*current)(c10::DeviceIndex) = nullptr;
    Stream (*handle)(const c10::Stream*) = nullptr;
  };
  static const Functions functions = [] {
    Functions f;
    void* library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return f;
    FindFunction(library, "_ZN3c104cuda20getCurrentCUDAStreamEa", &f.current);
    FindFunction(library, "_ZNK3c104cuda10CUDAStream6streamEv", &f.handle);
    return f;
  }();
  if (functions.current == nullptr || functions.handle == nullptr) {
    return absl::UnavailableError("torch's CUDA streams were not found");
  }
  const c10::Stream stream = functions.current(static_cast<c10::DeviceIndex>(device));
  return functions.handle(&stream);
}

}  // namespace framefuse::cuda
