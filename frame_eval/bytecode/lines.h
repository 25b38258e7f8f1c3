// Lines of a code object's units, read from its location table once: CPython's own look-up walks the table each time.
#ifndef FRAMEFUSE_FRAME_EVAL_BYTECODE_LINES_H_
#define FRAMEFUSE_FRAME_EVAL_BYTECODE_LINES_H_

#include <Python.h>

namespace framefuse {

// As PyCode_Addr2Line: the line of the code unit `index`, the code's first line for a negative one, -1 for none.
int LineOfUnit(PyCodeObject* code, int index);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_BYTECODE_LINES_H_
