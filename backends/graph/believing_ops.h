// BelievesItsArguments: kernels that take for granted what torch's own code or an earlier operator gives them, and read
// or write past an end where it is something else. They are run with no other arguments than the program's.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_BELIEVING_OPS_H_
#define FRAMEFUSE_BACKENDS_GRAPH_BELIEVING_OPS_H_

#include "backends/graph/op.h"

namespace framefuse::ir {

[[nodiscard]] bool BelievesItsArguments(OpId op);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_BELIEVING_OPS_H_
