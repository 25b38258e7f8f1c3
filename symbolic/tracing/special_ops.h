// Operators that the recorder rewrites or refuses: data-dependent ones, metadata mutations, batch norm with its
// hidden write, fresh host data.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SPECIAL_OPS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SPECIAL_OPS_H_

#include <string>

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

// `name` is the schema name, "aten::t_". Null: nothing special.
SpecialFn FindSpecial(const std::string& name, const c10::OperatorHandle& handle);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SPECIAL_OPS_H_
