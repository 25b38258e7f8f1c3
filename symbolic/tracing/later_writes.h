// later_writes: whether a node writes the memory of a tensor after a moment of the recording, through whatever alias;
// whether the tensor is still what it was (t_, `x.data = y` make another of it).
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_LATER_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_LATER_WRITES_H_

#include "frame_eval/ref.h"

namespace framefuse::tracing {

int NodesNow();  // of the recording under way
// Of nodes from `from` on. A tensor that is not traced counts as written.
bool IsWrittenFrom(BorrowedRef fake, int from);
int ValueNow(BorrowedRef fake);
// Of a tensor from outside: no longer the value that it came with.
bool IsRebound(BorrowedRef fake);
bool IsStill(BorrowedRef fake, int value, BorrowedRef shape);  // that value, in that shape

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_LATER_WRITES_H_
