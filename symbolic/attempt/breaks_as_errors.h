// Where a program says that a graph break is an error from here on: globals of modules that are true then, one behind
// framefuse.error_on_graph_break and one behind torch._dynamo's.
// Invariant: they are asked for what the program would see at the break, the attempt's own writes included.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_BREAKS_AS_ERRORS_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_BREAKS_AS_ERRORS_H_

#include "frame_eval/ref.h"

namespace framefuse {

class WriteJournal;

void RegisterBreaksAsErrors(BorrowedRef globals, BorrowedRef name);
bool BreaksAreErrors(WriteJournal& writes);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_BREAKS_AS_ERRORS_H_
