// Executes one opcode with CPython's evaluator in a small frame of its own, for the few whose meaning is hidden in
// shared builds (up to 3.12).
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_RUN_OPCODE_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_RUN_OPCODE_H_

#include "frame_eval/versions/internal.h"  // must come first

namespace framefuse::frame_ops {

// The one value that `opcode` leaves of `inputs` (one or two). Null with an error set.
Ref RunOpcode(PyThreadState* thread, PyObject* globals, int opcode, int arg, PyObject* const* inputs, int input_count);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_RUN_OPCODE_H_
