#include "backends/runtime/builtin_backends.h"

#include "backends/fusion/fuse_backend.h"
#include "backends/graph/backend.h"
#include "backends/runtime/aten_backend.h"
#include "backends/runtime/cond_operator.h"

namespace framefuse {

void RegisterBuiltinBackends() {
  RegisterBackend("aten", MakeAtenBackend);
  RegisterBackend("fuse", MakeFuseBackend);
  RegisterCondOperator();
}

}  // namespace framefuse
