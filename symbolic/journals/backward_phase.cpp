#include "symbolic/journals/backward_phase.h"

#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

bool BackwardPhase::MayReadNow(SourceKind kind) const {
  if (kind == SourceKind::kConstant || frames_.InSkippedCode()) return true;  // torch's settings of the class
  return breaks_.BreakFalse(GraphBreakKind::kAutograd,
                            "a backward function reads a value that may change before it runs");
}

bool BackwardPhase::MayWriteNow() const {
  // What the library writes is its own, as a context manager's; the close sees whether it existed before.
  if (frames_.InSkippedCode()) return true;
  return breaks_.BreakFalse(GraphBreakKind::kAutograd, "a backward function writes to an object");
}

}  // namespace framefuse
