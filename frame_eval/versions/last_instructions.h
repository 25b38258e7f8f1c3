// Where on the stack a code object keeps the numbers of instructions that raised (RERAISE goes on as if there).
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_LAST_INSTRUCTIONS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_LAST_INSTRUCTIONS_H_

#include <Python.h>

#include <vector>

namespace framefuse::frame_ops {

// Stack depths of such numbers while the instruction at the code unit `index` is next.
std::vector<int> LastInstructionDepths(PyCodeObject* code, int index);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_LAST_INSTRUCTIONS_H_
