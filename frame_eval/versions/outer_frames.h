// What may be read of a frame that executes, which is not ours: a call further out, in CPython's evaluator or in ours.
// Invariant: nothing here changes the frame. Slots() and View() would turn its references into plain pointers from 3.14
// on (frame_values.h), under the evaluator that is using them.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_OUTER_FRAMES_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_OUTER_FRAMES_H_

#include "frame_eval/versions/frame_ops.h"

namespace framefuse::frame_ops {

PyObject* LocalOf(const Frame* frame, int slot);  // null: it has no value. Borrowed.

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_OUTER_FRAMES_H_
