// int_factories: calls of torch's factories whose schema has a plain integer, so that torch's parser would look at a
// symbolic one: the number of steps of a linspace. They are recorded with the symbolic number.
// Invariant: what is recorded is what torch's binding would have called.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_INT_FACTORIES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_INT_FACTORIES_H_

#include <string_view>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "symbolic/tracing/numbers.h"

namespace framefuse::tracing {

// `name`: of torch's function; `args` and `kwnames` as a vectorcall has them. Null without an error: it is none of
// them, or has arguments that are left to the binding.
Ref CallIntFactory(const Numbers& numbers, std::string_view name, absl::Span<PyObject* const> args,
                   BorrowedRef kwnames);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_INT_FACTORIES_H_
