// InputMemory: which storages of inputs lie over the same addresses. To the graph each storage is memory of its own;
// two can be made over one buffer, as those of numpy arrays are that are parts of one.
// Invariant: of storages that share addresses none is written and traced.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_INPUT_MEMORY_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_INPUT_MEMORY_H_

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "backends/graph/graph.h"

namespace framefuse::tracing {

class InputMemory {
 public:
  // False: it shares addresses with others, and one of those is written.
  bool Add(const c10::StorageImpl& memory, ir::StorageId id);
  // Of any storage. False: it shares addresses.
  bool Write(ir::StorageId id);

 private:
  struct Extent {
    std::uintptr_t end = 0;
    std::vector<ir::StorageId> storages;
  };
  std::map<std::uintptr_t, Extent> extents_;  // disjoint, by where they begin
  absl::flat_hash_set<ir::StorageId> shared_;
  absl::flat_hash_set<ir::StorageId> written_;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_INPUT_MEMORY_H_
