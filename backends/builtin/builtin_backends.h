// RegisterBuiltinBackends: puts "aten" and "fuse" into the registry (graph/backend.h). A static library's own
// initialisers would be dropped by the linker, so the bindings and the tests call this once at their start.
#ifndef FRAMEFUSE_BACKENDS_BUILTIN_BUILTIN_BACKENDS_H_
#define FRAMEFUSE_BACKENDS_BUILTIN_BUILTIN_BACKENDS_H_

namespace framefuse {

void RegisterBuiltinBackends();  // idempotent

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_BUILTIN_BUILTIN_BACKENDS_H_
