// From Status back to the C++ exception that it carries, for code that torch's engine calls.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_TORCH_ERROR_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_TORCH_ERROR_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse {

// Throws the original exception if the status has one, else a RuntimeError with its message.
void ThrowIfError(const absl::Status& status);

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_TORCH_ERROR_H_
