#include "symbolic/frames/installed_code.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/container/flat_hash_map.h"

namespace framefuse {
namespace {

bool HoldsDistInfo(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".dist-info") return true;
  }
  return false;
}

// Whether an installer fills `folder` or one above it.
bool IsInstallFolder(std::string_view folder) {
  static auto* known = new absl::flat_hash_map<std::string, bool>();  // under the GIL
  if (folder.empty()) return false;
  if (const auto found = known->find(std::string(folder)); found != known->end()) return found->second;
  const std::string path(folder);
  const std::size_t slash = folder.rfind('/');
  const bool installed =
      HoldsDistInfo(path) || (slash != std::string_view::npos && IsInstallFolder(folder.substr(0, slash)));
  known->emplace(path, installed);
  return installed;
}

}  // namespace

bool IsInstalled(PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_Check(code->co_filename) ? PyUnicode_AsUTF8AndSize(code->co_filename, &size) : nullptr;
  if (data == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view file(data, static_cast<std::size_t>(size));
  const std::size_t slash = file.rfind('/');
  return slash != std::string_view::npos && file.front() == '/' && IsInstallFolder(file.substr(0, slash));
}

}  // namespace framefuse
