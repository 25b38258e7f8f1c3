// The backend "aten": each node is its ATen operator. The oracle for every other backend.
#ifndef FRAMEFUSE_BACKENDS_BUILTIN_ATEN_BACKEND_H_
#define FRAMEFUSE_BACKENDS_BUILTIN_ATEN_BACKEND_H_

#include <memory>

#include "backends/graph/backend.h"

namespace framefuse {

std::unique_ptr<Backend> MakeAtenBackend();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_BUILTIN_ATEN_BACKEND_H_
