// Entry: one compiled version of a code object from one offset on. frame_eval keeps entries in the per-code
// cache and offers them in most-recently-hit order; guards implements the check, symbolic makes and runs it.
// Invariant: nothing here has a side effect visible to Python or runs Python code.
#ifndef FRAMEFUSE_FRAME_EVAL_ENTRY_H_
#define FRAMEFUSE_FRAME_EVAL_ENTRY_H_

#include <string>

#include "frame_eval/frame_view.h"

namespace framefuse {

class Entry {
 public:
  virtual ~Entry() = default;
  // Something that it expects is dead: it will never match again.
  virtual bool IsDead() const = 0;
  // The first guard that fails on this frame, as text with both values; empty where all hold.
  virtual std::string Explain(const FrameView& frame) const = 0;

  bool was_found = false;  // by a later call than the one that made it
};

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_ENTRY_H_
