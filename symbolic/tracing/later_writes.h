// later_writes: whether a node writes the memory of a tensor after a moment of the recording, through whatever alias.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_LATER_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_LATER_WRITES_H_

#include "frame_eval/ref.h"

namespace framefuse::tracing {

int NodesNow();  // of the recording under way
// Of nodes from `from` on. A tensor that is not traced counts as written.
bool IsWrittenFrom(BorrowedRef fake, int from);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_LATER_WRITES_H_
