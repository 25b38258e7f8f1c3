// The backend "fuse": groups of nodes as kernels made in this process, the rest as ATen operators.
#ifndef FRAMEFUSE_BACKENDS_BUILTIN_FUSE_BACKEND_H_
#define FRAMEFUSE_BACKENDS_BUILTIN_FUSE_BACKEND_H_

#include <memory>

#include "backends/graph/backend.h"

namespace framefuse {

std::unique_ptr<Backend> MakeFuseBackend();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_BUILTIN_FUSE_BACKEND_H_
