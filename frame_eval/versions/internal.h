// CPython's internal headers, made compilable as C++20. Only frame_eval/versions/ may include this file, and it
// must come first in a source file, because Py_BUILD_CORE changes what Python.h declares.
// Invariant: only structs, macros and inline functions are used from here; most internal functions are hidden in
// shared builds of CPython, so each that is needed is written again with public pieces.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_INTERNAL_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_INTERNAL_H_

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>

// C's <stdatomic.h> is no C++20; the variant on compiler builtins has the same layout.
#undef HAVE_STD_ATOMIC
#ifndef HAVE_BUILTIN_ATOMIC
#define HAVE_BUILTIN_ATOMIC 1
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wpedantic"
extern "C" {
#include "internal/pycore_ceval.h"
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_genobject.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_interpframe.h"
#endif
}
#pragma GCC diagnostic pop

// After Py_BUILD_CORE's Python.h.
#include "frame_eval/ref.h"

namespace framefuse::frame_ops {

#if PY_VERSION_HEX < 0x030D0000
inline int LoadRelaxed(const _Py_atomic_int& value) { return __atomic_load_n(&value._value, __ATOMIC_RELAXED); }
inline void StoreRelaxed(_Py_atomic_int& value, int to) { __atomic_store_n(&value._value, to, __ATOMIC_RELAXED); }
#endif

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_INTERNAL_H_
