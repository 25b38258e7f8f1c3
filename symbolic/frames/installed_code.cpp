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

std::string TextOf(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return "";
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) PyErr_Clear();
  return data == nullptr ? "" : std::string(data, static_cast<std::size_t>(size));
}

// The folder of Python's own modules, with its slash at the end.
const std::string& StandardFolder() {
  static const auto* const folder = [] {
    PyObject* const os = PyDict_GetItemString(PyImport_GetModuleDict(), "os");
    PyObject* const names = os != nullptr && PyModule_Check(os) ? PyModule_GetDict(os) : nullptr;
    const std::string file = names != nullptr ? TextOf(PyDict_GetItemString(names, "__file__")) : "";
    return new std::string(file.substr(0, file.rfind('/') + 1));
  }();
  return *folder;
}

}  // namespace

bool IsUsersCode(PyCodeObject* code) {
  const std::string file = TextOf(code->co_filename);
  const std::string& standard = StandardFolder();
  return !(file.starts_with("<frozen ") || (!standard.empty() && file.starts_with(standard))) && !IsInstalled(code);
}

bool IsInstalled(PyCodeObject* code) {
  const std::string name = TextOf(code->co_filename);
  const std::string_view file(name);
  if (file.empty()) return false;
  const std::size_t slash = file.rfind('/');
  return slash != std::string_view::npos && file.front() == '/' && IsInstallFolder(file.substr(0, slash));
}

}  // namespace framefuse
