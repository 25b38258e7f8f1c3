// The header of the format safetensors: names, dtypes, sizes and places of tensors, and texts, as JSON.
// Invariant: a header that was read describes tensors side by side that fill the bytes behind it.
#ifndef FRAMEFUSE_BACKENDS_PACKAGE_SAFETENSORS_H_
#define FRAMEFUSE_BACKENDS_PACKAGE_SAFETENSORS_H_

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace framefuse {

struct StoredTensor {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<std::int64_t> sizes;
  std::uint64_t begin = 0, end = 0;  // behind the header
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> texts;  // in order
  std::vector<StoredTensor> tensors;                       // in order of their places
};

bool HasSafetensorsForm(c10::ScalarType dtype);
std::string PrintHeader(const SafetensorsHeader& header);
// `data_bytes`: how many there are behind it.
absl::StatusOr<SafetensorsHeader> ReadHeader(std::string_view json, std::uint64_t data_bytes);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PACKAGE_SAFETENSORS_H_
