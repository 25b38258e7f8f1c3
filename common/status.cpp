// Annotate keeps the code and payload-free message; see status.h.
#include "common/status.h"

namespace framefuse {

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), std::string(context) + ": " + MessageOf(status));
}

}  // namespace framefuse
