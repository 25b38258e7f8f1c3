// under_checkpoint: why a frame is left to Python while hooks for saved tensors keep what it saves.
// A checkpoint runs the frame again in the backward pass and stops it behind the last tensor that it saves. A compiled
// graph stops behind all of its work, so a frame that does more than compute would do other things than in eager; and
// one that may go on as Python would save other tensors than before.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_UNDER_CHECKPOINT_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_UNDER_CHECKPOINT_H_

#include <string>

#include "symbolic/capture/capture.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {

// Whether such hooks are on: a second run may ask whether two graphs are alike.
bool IsKept();
// Empty: nothing keeps what it saves, or it only computes. `for_python`: its graph is for an FX backend.
std::string WhyLeftToCheckpoint(Capture& capture, const Closed& closed, bool for_python);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_UNDER_CHECKPOINT_H_
