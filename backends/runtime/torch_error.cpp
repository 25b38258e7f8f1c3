#include "backends/runtime/torch_error.h"

#include <c10/util/Exception.h>

#include "backends/graph/backend.h"
#include "common/status.h"

namespace framefuse {

void ThrowIfError(const absl::Status& status) {
  if (status.ok()) return;
  if (std::exception_ptr exception = TorchErrorOf(status)) std::rethrow_exception(exception);
  TORCH_CHECK(false, MessageOf(status));
}

}  // namespace framefuse
