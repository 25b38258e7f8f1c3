#include "backends/builtin/builtin_backends.h"

#include "backends/builtin/aten_backend.h"
#include "backends/builtin/fuse_backend.h"
#include "backends/graph/backend.h"
#include "backends/runtime/cond_operator.h"
#include "backends/runtime/draw_operator.h"
#include "backends/runtime/recurrent_operator.h"

namespace framefuse {

void RegisterBuiltinBackends() {
  RegisterBackend("aten", MakeAtenBackend);
  RegisterBackend("fuse", MakeFuseBackend);
  RegisterCondOperator();
  RegisterRecurrentOperator();
  RegisterDrawOperator();
}

}  // namespace framefuse
