// CheckWarnings: an operator that warns is left to Python, where the warning has its line and comes each
// time. What torch has said already, and says once a process, is none (due_warnings.h). What it says each time of
// operands of such sizes is said here, as if the operator ran: the capture takes it as it takes Python's own warnings.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_CHECK_WARNINGS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_CHECK_WARNINGS_H_

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

// `of_probe`: what eager's kernel says of such operands.
void CheckWarnings(Recorder& recorder, const OpTraits& traits, c10::ArrayRef<c10::IValue> args,
                   const std::optional<std::string>& of_probe, const Outputs& outputs);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_CHECK_WARNINGS_H_
