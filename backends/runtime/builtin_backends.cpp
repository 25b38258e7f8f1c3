#include "backends/runtime/builtin_backends.h"

#include "backends/graph/backend.h"
#include "backends/runtime/aten_backend.h"

namespace framefuse {

void RegisterBuiltinBackends() { RegisterBackend("aten", MakeAtenBackend); }

}  // namespace framefuse
