// Looks for CUDA's libraries where pip, the system and the toolkit put them, and for functions in a library.
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_LIBRARIES_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_LIBRARIES_H_

#include <dlfcn.h>

#include "absl/types/span.h"

namespace framefuse::cuda {

// The first of `names` that is found by name, beside the CUDA libraries that are loaded, in pip's folder `package`
// beside those, or under /usr/local/cuda; null if there is none.
void* OpenCudaLibrary(absl::Span<const char* const> names, const char* package);

template <typename F>
bool FindFunction(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_LIBRARIES_H_
