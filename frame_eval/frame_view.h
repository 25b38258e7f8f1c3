// FrameView: what guards may read of a frame that is about to run, without owning or changing it.
// It is filled either from an interpreter frame (hook) or straight from a vectorcall's arguments, so that
// a hit needs no Python frame. Borrowed throughout; valid only for the call that made it.
#ifndef FRAMEFUSE_FRAME_EVAL_FRAME_VIEW_H_
#define FRAMEFUSE_FRAME_EVAL_FRAME_VIEW_H_

#include "frame_eval/ref.h"

namespace framefuse {

struct FrameView {
  PyFunctionObject* function = nullptr;
  PyCodeObject* code = nullptr;
  PyObject* globals = nullptr;
  PyObject* builtins = nullptr;
  PyObject* const* slots = nullptr;  // localsplus, then the value stack; entries may be null
  int slot_count = 0;                // locals + cells + free variables + stack depth
  int offset = 0;                    // index (in code units) of the next instruction: 0 at the start
};

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_FRAME_VIEW_H_
