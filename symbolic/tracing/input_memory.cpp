#include "symbolic/tracing/input_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace framefuse::tracing {

bool InputMemory::Add(const c10::StorageImpl& memory, ir::StorageId id) {
  std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(memory.data_ptr().get());
  if (begin == 0 || memory.sym_nbytes().is_heap_allocated() || memory.nbytes() == 0) return true;
  Extent extent{begin + memory.nbytes(), {id}};
  // What touches it becomes one extent with it.
  auto it = extents_.upper_bound(begin);
  if (it != extents_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != extents_.end() && it->first < extent.end) {
    begin = std::min(begin, it->first);
    extent.end = std::max(extent.end, it->second.end);
    extent.storages.insert(extent.storages.end(), it->second.storages.begin(), it->second.storages.end());
    it = extents_.erase(it);
  }
  bool written = false;
  if (extent.storages.size() > 1) {
    for (const ir::StorageId s : extent.storages) {
      shared_.insert(s);
      written = written || written_.contains(s);
    }
  }
  extents_.emplace(begin, std::move(extent));
  return !written;
}

bool InputMemory::Write(ir::StorageId id) {
  written_.insert(id);
  return !shared_.contains(id);
}

}  // namespace framefuse::tracing
