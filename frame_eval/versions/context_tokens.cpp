#include "frame_eval/versions/internal.h"

// After Py_BUILD_CORE's Python.h.
#include "frame_eval/versions/context_tokens.h"

extern "C" {
#include "internal/pycore_context.h"
}

namespace framefuse::frame_ops {
namespace {

const _pycontexttokenobject& AsToken(PyObject* token) { return *reinterpret_cast<_pycontexttokenobject*>(token); }

}  // namespace

PyObject* DefaultOfContextVariable(PyObject* variable) {
  return reinterpret_cast<_pycontextvarobject*>(variable)->var_default;
}

PyObject* VariableOfToken(PyObject* token) {
  const bool of_this_context = reinterpret_cast<PyObject*>(AsToken(token).tok_ctx) == PyThreadState_Get()->context;
  return of_this_context && !AsToken(token).tok_used ? reinterpret_cast<PyObject*>(AsToken(token).tok_var) : nullptr;
}

PyObject* OldValueOfToken(PyObject* token) { return AsToken(token).tok_oldval; }

}  // namespace framefuse::frame_ops
