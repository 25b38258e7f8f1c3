// collectives: operators that speak to other processes (torch.distributed's functional collectives). All processes of a
// group must come to the same ones in the same order. So they are never merged, dropped, moved past each other,
// computed again, or run a second time because something else failed (ir::Op::has_side_effect).
#ifndef FRAMEFUSE_BACKENDS_GRAPH_COLLECTIVES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_COLLECTIVES_H_

#include "absl/status/status.h"
#include "backends/graph/graph.h"
#include "backends/graph/operators.h"

namespace framefuse {
namespace ir {

inline bool SpeaksToOthers(const Node& n) { return n.op->has_side_effect() && !n.op->returns().empty(); }
// For what one of them has begun.
inline bool WaitsForOthers(const Node& n) { return Is(n.op, OpName::kWaitTensor); }

}  // namespace ir

// Of a failed run: undoes MarkInputsUntouched of a part of it that came after something else had acted.
void MarkInputsTouched(absl::Status& status);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_GRAPH_COLLECTIVES_H_
