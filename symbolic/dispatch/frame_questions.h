// frame_questions: what an EntryMaker asks of a frame before it has it captured.
// Invariant: runs no Python.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_FRAME_QUESTIONS_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_FRAME_QUESTIONS_H_

#include "frame_eval/frame_view.h"

namespace framefuse {

// Whether all keys of a builtins dictionary are strings. With other keys C code that looks for a builtin runs their
// __eq__, as an attempt's does: iterators, for one, name theirs when they are asked for their state.
[[nodiscard]] bool HasOnlyNames(PyObject* builtins);
// Of any class: a look at `__class__` may run code.
[[nodiscard]] bool HasTensorInSlots(const FrameView& view);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_FRAME_QUESTIONS_H_
