#include "backends/cuda_runtime/libraries.h"

#include <link.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace framefuse::cuda {
namespace {

// Folders of the CUDA libraries that this process has loaded.
std::vector<std::string> LoadedFolders() {
  std::vector<std::string> folders;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const std::string path = info->dlpi_name;
        const std::size_t slash = path.rfind('/');
        const bool cuda = path.find("libcudart") != std::string::npos || path.find("libcublas") != std::string::npos ||
                          path.find("libc10_cuda") != std::string::npos || path.find("libtorch") != std::string::npos;
        if (cuda && slash != std::string::npos) {
          static_cast<std::vector<std::string>*>(out)->push_back(path.substr(0, slash + 1));
        }
        return 0;
      },
      &folders);
  return folders;
}

}  // namespace

void* OpenCudaLibrary(absl::Span<const char* const> names, const char* package) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  std::vector<std::string> folders = LoadedFolders();
  for (std::size_t i = 0, n = folders.size(); i < n; ++i) {
    folders.push_back(absl::StrCat(folders[i], "../../", package, "/lib/"));
    folders.push_back(absl::StrCat(folders[i], "../../nvidia/", package, "/lib/"));
    folders.push_back(folders[i] + "../../nvidia/cu13/lib/");
  }
  folders.push_back("/usr/local/cuda/lib64/");
  for (const std::string& folder : folders) {
    for (const char* name : names) {
      if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

}  // namespace framefuse::cuda
