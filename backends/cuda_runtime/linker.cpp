#include "backends/cuda_runtime/linker.h"

#include "absl/strings/str_cat.h"
#include "backends/cuda_runtime/libraries.h"

namespace framefuse::cuda {
namespace {

constexpr int kPtx = 2;  // NVJITLINK_INPUT_PTX

// Not every version exports the plain names; all have some that end in the version that they keep to.
template <typename F>
bool FindVersioned(void* library, const std::string& name, F* function) {
  if (FindFunction(library, name.c_str(), function)) return true;
  for (const int major : {13, 12}) {
    for (int minor = 9; minor >= 0; --minor) {
      if (FindFunction(library, absl::StrCat("__", name, "_", major, "_", minor).c_str(), function)) return true;
    }
  }
  return false;
}

absl::StatusOr<const Linker*> LoadLinker() {
  void* library = OpenCudaLibrary({"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"}, "nvjitlink");
  if (library == nullptr) return absl::UnavailableError("libnvJitLink was not found");
  static Linker l;
  const bool found = FindVersioned(library, "nvJitLinkVersion", &l.Version) &&
                     FindVersioned(library, "nvJitLinkCreate", &l.Create) &&
                     FindVersioned(library, "nvJitLinkAddData", &l.AddData) &&
                     FindVersioned(library, "nvJitLinkComplete", &l.Complete) &&
                     FindVersioned(library, "nvJitLinkGetErrorLogSize", &l.GetErrorLogSize) &&
                     FindVersioned(library, "nvJitLinkGetErrorLog", &l.GetErrorLog) &&
                     FindVersioned(library, "nvJitLinkGetLinkedCubinSize", &l.GetLinkedCubinSize) &&
                     FindVersioned(library, "nvJitLinkGetLinkedCubin", &l.GetLinkedCubin) &&
                     FindVersioned(library, "nvJitLinkDestroy", &l.Destroy);
  if (!found) return absl::UnavailableError("libnvJitLink lacks a function that is needed");
  if (l.Version(&l.major, &l.minor) != 0) return absl::UnavailableError("libnvJitLink does not tell its version");
  return &l;
}

std::string LogOf(const Linker& l, Linker::Handle handle) {
  std::size_t size = 0;
  if (l.GetErrorLogSize(handle, &size) != 0 || size == 0) return "";
  std::string log(size, '\0');
  l.GetErrorLog(handle, log.data());
  return log.substr(0, log.find('\0'));
}

}  // namespace

absl::StatusOr<const Linker*> GetLinker() {
  static const absl::StatusOr<const Linker*>* linker = new absl::StatusOr<const Linker*>(LoadLinker());
  return *linker;
}

std::vector<std::string> LinkerOptions(const Linker& l, int architecture) {
  // What NVRTC is told, too (--Ofast-compile): as few instructions as -O3's, in fewer registers and less time.
  std::vector<std::string> options = {absl::StrCat("-arch=sm_", architecture), "-Xptxas=-O1"};
  if (l.major >= 13) options.push_back("--no-cache");  // ours is asked first
  return options;
}

absl::StatusOr<std::string> Assemble(const Linker& l, const std::string& ptx, const std::vector<std::string>& given) {
  std::vector<const char*> options;
  options.reserve(given.size());
  for (const std::string& option : given) options.push_back(option.c_str());
  Linker::Handle handle = nullptr;
  if (Result r = l.Create(&handle, static_cast<std::uint32_t>(options.size()), options.data()); r != 0) {
    return absl::InternalError(absl::StrCat("nvJitLinkCreate: error ", r));
  }
  absl::StatusOr<std::string> cubin = std::string();
  std::size_t size = 0;
  Result r = l.AddData(handle, kPtx, ptx.data(), ptx.size(), "framefuse.ptx");
  if (r == 0) r = l.Complete(handle);
  if (r != 0) {
    cubin = absl::InternalError(absl::StrCat("nvJitLink: error ", r, "\n", LogOf(l, handle)));
  } else if (l.GetLinkedCubinSize(handle, &size) != 0 || size == 0) {
    cubin = absl::InternalError("nvJitLink made no cubin");
  } else {
    cubin->resize(size);
    if (l.GetLinkedCubin(handle, cubin->data()) != 0) cubin = absl::InternalError("nvJitLink lost the cubin");
  }
  l.Destroy(&handle);
  return cubin;
}

}  // namespace framefuse::cuda
