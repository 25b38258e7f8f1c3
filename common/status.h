// FF_RETURN_IF_ERROR and FF_ASSIGN_OR_RETURN: absl::Status without repetition, and Annotate, which says where an error
// passed. Errors travel as Status between folders; no C++ exception crosses one.
#ifndef FRAMEFUSE_COMMON_STATUS_H_
#define FRAMEFUSE_COMMON_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse {

// The status with "context: " put before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// The message as std::string (Debian's absl::string_view is not std::string_view).
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace framefuse

#define FF_STATUS_CONCAT_INNER(a, b) a##b
#define FF_STATUS_CONCAT(a, b) FF_STATUS_CONCAT_INNER(a, b)

#define FF_RETURN_IF_ERROR(expression)                                                                \
  do {                                                                                                \
    if (absl::Status ff_status = (expression); ABSL_PREDICT_FALSE(!ff_status.ok())) return ff_status; \
  } while (false)

// FF_ASSIGN_OR_RETURN(auto plan, backend->Compile(graph));
#define FF_ASSIGN_OR_RETURN(target, expression) \
  FF_ASSIGN_OR_RETURN_IMPL(FF_STATUS_CONCAT(ff_status_or_, __LINE__), target, expression)
#define FF_ASSIGN_OR_RETURN_IMPL(result, target, expression)    \
  auto result = (expression);                                   \
  if (ABSL_PREDICT_FALSE(!result.ok())) return result.status(); \
  target = std::move(result).value()

#endif  // FRAMEFUSE_COMMON_STATUS_H_
