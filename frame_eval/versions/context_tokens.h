// Context variables and their tokens, read past their methods: a default is told though the variable is set, and
// whether a token can still be used, without using it. Invariant: nothing is changed, and no code of the program runs.
// All results are borrowed.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_CONTEXT_TOKENS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_CONTEXT_TOKENS_H_

#include <Python.h>

namespace framefuse::frame_ops {

PyObject* DefaultOfContextVariable(PyObject* variable);  // null: it has none
// The variable of a token that nobody used, of the current context. Null: a reset by it would raise.
PyObject* VariableOfToken(PyObject* token);
PyObject* OldValueOfToken(PyObject* token);  // null: the variable was not set

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_CONTEXT_TOKENS_H_
