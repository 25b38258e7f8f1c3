// Operators that the recorder rewrites or refuses: data-dependent ones, metadata mutations, batch norm with its
// hidden write, fresh host data.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_SPECIAL_OPS_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_SPECIAL_OPS_H_

#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

// Null: nothing special.
SpecialFn FindSpecial(const ir::Op& op);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_SPECIAL_OPS_H_
