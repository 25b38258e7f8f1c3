// CPython's table of inline cache sizes: its header is C, not C++.
#define Py_BUILD_CORE 1
#define NEED_OPCODE_TABLES 1
#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000
#define NEED_OPCODE_METADATA 1
#include "internal/pycore_opcode_metadata.h"
#else
#include "internal/pycore_opcode.h"
#endif

const uint8_t* framefuse_opcode_caches(void) { return _PyOpcode_Caches; }
