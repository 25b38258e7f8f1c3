// ImportModule: a module by its full name, as the import system has it.
// Invariant: neither the running frame's globals nor the program's __import__ are asked. PyImport_ImportModule asks
// both, and fails in a function whose globals have no __builtins__.
#ifndef FRAMEFUSE_FRAME_EVAL_IMPORT_MODULE_H_
#define FRAMEFUSE_FRAME_EVAL_IMPORT_MODULE_H_

#include "frame_eval/ref.h"

namespace framefuse {

// Null with an exception set: it cannot be imported.
Ref ImportModule(const char* name);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_IMPORT_MODULE_H_
