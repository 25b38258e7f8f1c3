// What a capture found, for the logs `graph_code`, `effects` and `bytecode`: written while it is alive, since it knows
// the names of sources. Invariant: changes nothing; costs nothing where the logs are off.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_CAPTURE_LOG_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_CAPTURE_LOG_H_

#include <vector>

#include "symbolic/reconstruct/close.h"

namespace framefuse {

// The torch-level calls of a journal, in order: functions, and methods as torch.Tensor has them.
std::vector<Ref> OperationsOf(const FxJournal& journal);

// The log `graph` or the trace shows a graph's text.
bool WantsGraphText();
void LogCapture(Capture& capture, const Closed& closed, frame_ops::Frame* frame);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_CAPTURE_LOG_H_
