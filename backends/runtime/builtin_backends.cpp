#include "backends/runtime/builtin_backends.h"

#include "backends/graph/backend.h"
#include "backends/runtime/aten_backend.h"

namespace framefuse {

// "fuse" (backends/fusion) is not offered yet: sin and cos, which its machine code calls as functions, come out wrong
// in a compiled `sin(x) + cos(y)`. Until that is mended the package runs "aten" for it and says so in the log.
void RegisterBuiltinBackends() { RegisterBackend("aten", MakeAtenBackend); }

}  // namespace framefuse
