// CPython's table of inline cache sizes: its header is C, not C++.
#define Py_BUILD_CORE 1
#define NEED_OPCODE_TABLES 1
#include <Python.h>

#include "internal/pycore_opcode.h"

const uint8_t* framefuse_opcode_caches(void) { return _PyOpcode_Caches; }
