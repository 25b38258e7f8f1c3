// Records of Python's logging in captured code: the entry emits them when it runs, with the place of the call that made
// them (framefuse/_log_calls.py has the other half, which decides whose handlers cannot tell).
// Invariant: what decides where a record goes is as it was at the call: a later write to it in the frame breaks.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_LOG_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_LOG_CALLS_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class FrameStack;
class ObjectTable;
class ReadJournal;
class WriteJournal;

// `args`: the function that emits a record, the file of module logging, a tuple of what decides where records go, the
// logger, the level, the message, a tuple of its arguments. True: the entry makes the call.
bool DeferLog(const FrameStack& frames, ReadJournal& reads, ObjectTable& objects, WriteJournal& writes,
              absl::Span<const ValueView> args);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_LOG_CALLS_H_
