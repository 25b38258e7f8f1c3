// The thread's data stack, on which CPython allocates interpreter frames, and the death of a frame that a frame
// object still refers to. CPython's own functions for this are hidden in shared builds; 3.13 shows the last two.
// Invariant: chunks are laid out, grown and released exactly as CPython does, since both sides push and pop.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_DATA_STACK_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_DATA_STACK_H_

#include "frame_eval/versions/internal.h"

namespace framefuse::frame_ops {

// Room for `size` object pointers; null with MemoryError set.
PyObject** PushDataStack(PyThreadState* thread, int size);
void PopDataStack(PyThreadState* thread, PyObject** base);

// Gives the dying frame's contents to its frame object, which outlives it. `frame` is not linked any more, its
// `previous` still is the frame that called it.
void MoveToFrameObject(PyThreadState* thread, PyFrameObject* object, _PyInterpreterFrame* frame);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_DATA_STACK_H_
