// Package: what framefuse.export writes, as one file: texts and weights. The file is one of the format safetensors; the
// texts stand in its "__metadata__", behind the format's version and a SHA-256 of all the rest.
// Invariant: a file appears whole or not at all, and what is read has the checksum that was written.
#ifndef FRAMEFUSE_BACKENDS_PACKAGE_PACKAGE_FILE_H_
#define FRAMEFUSE_BACKENDS_PACKAGE_PACKAGE_FILE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace framefuse {

struct Package {
  std::map<std::string, std::string> texts;
  std::map<std::string, at::Tensor> weights;  // on the CPU when read; of any strides and device when written

  std::string_view Text(const std::string& name) const;  // empty: there is none
};

// Returns the SHA-256 of the file. Unavailable: the file cannot be written. InvalidArgument: a weight has no form
// there.
absl::StatusOr<std::string> WritePackage(const std::string& path, const Package& package);
// `sha256`: of the file, or empty: any. Unavailable: it cannot be read. OutOfRange: it is damaged, no package, another
// one or of another version.
absl::StatusOr<Package> ReadPackage(const std::string& path, std::string_view sha256);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PACKAGE_PACKAGE_FILE_H_
