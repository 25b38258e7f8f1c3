// The slots and the stack of a frame as plain object pointers, null where there is none, each with a reference.
// Up to 3.13 CPython keeps them so. From 3.14 on it keeps tagged references: a frame that we touch is turned into plain
// pointers where it stands, and back before CPython's code gets it (GiveBack).
// Invariant: what holds plain pointers shows the garbage collector no values.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_FRAME_VALUES_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_FRAME_VALUES_H_

#include "frame_eval/versions/internal.h"  // must come first

namespace framefuse::frame_ops {

#if PY_VERSION_HEX < 0x030E0000

inline PyObject** Values(_PyInterpreterFrame* frame) { return frame->localsplus; }
// Slots and live stack entries.
inline int ValueCount(const _PyInterpreterFrame* frame) { return frame->stacktop; }
inline void SetValueCount(_PyInterpreterFrame* frame, int count) { frame->stacktop = count; }

#else

PyObject** Values(_PyInterpreterFrame* frame);
int ValueCount(const _PyInterpreterFrame* frame);
void SetValueCount(_PyInterpreterFrame* frame, int count);
// For a frame that starts to execute in our evaluator: its values are plain, and their count is not known.
void HideValues(_PyInterpreterFrame* frame);
// For a frame that ends to execute there: a write through f_locals left a tag on an immortal object.
void DropTags(_PyInterpreterFrame* frame);
// The same as GiveBack for a frame that only dies.
void GiveBackToDie(_PyInterpreterFrame* frame);

#endif

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_FRAME_VALUES_H_
