// What the files of the versions from 3.12 on share among themselves.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_SINCE_PY312_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_SINCE_PY312_H_

#include <Python.h>

namespace framefuse::frame_ops {

// Counts a call against the limit of Python frames, as CPython does and in its words; false: RecursionError is set and
// nothing is counted. The caller gives it back by ++thread->py_recursion_remaining.
bool EnterPythonCall(PyThreadState* thread);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_SINCE_PY312_H_
