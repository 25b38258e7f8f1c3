// CheckWrittenMemory: what of a recorded graph cannot be made functional, because of who shares the memory that it
// writes.
#ifndef FRAMEFUSE_BACKENDS_PASSES_WRITTEN_MEMORY_H_
#define FRAMEFUSE_BACKENDS_PASSES_WRITTEN_MEMORY_H_

#include "absl/status/status.h"
#include "backends/graph/graph.h"
#include "backends/passes/aliases.h"

namespace framefuse {

absl::Status CheckWrittenMemory(const ir::Graph& recorded, const Aliases& aliases);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_WRITTEN_MEMORY_H_
