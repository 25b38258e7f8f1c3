#include "symbolic/tracing/uncounted_writes.h"

#include <algorithm>
#include <cstddef>

#include "symbolic/tracing/version_counter.h"

namespace framefuse::tracing {
namespace {

// Whether eager's node of `n` may have saved memory of that storage: as an operand, or as what it computed.
bool MaySave(const ir::Graph& graph, const ir::Node& n, ir::StorageId storage) {
  if (n.history == ir::History::kCut || n.op->is_view()) return false;
  bool found = false;
  const auto look = [&](ir::ValueId v) { found = found || graph.value(v).storage == storage; };
  ir::ForEachUse(n, look);
  for (const ir::ValueId v : n.outputs) {
    if (v != ir::kNoValue) look(v);
  }
  return found;
}

}  // namespace

void UncountedWrites::Note(const at::Tensor& written, ir::StorageId storage, int node) {
  writes_[storage].push_back({CounterOf(written), node});
}

int UncountedWrites::FirstBehindARead(const ir::Graph& graph, const at::Tensor& saved, ir::ValueId value,
                                      bool is_input) const {
  const ir::StorageId storage = graph.value(value).storage;
  const auto found = writes_.find(storage);
  if (found == writes_.end()) return -1;
  bool read = false, written = !is_input;
  int next = 0;
  for (const Write& w : found->second) {
    const bool counted = SameCounter(w.counter, CounterOf(saved));  // what was saved before is refused by the backward
    for (; next < w.node; ++next) {
      const ir::Node& n = graph.nodes[static_cast<std::size_t>(next)];
      read = read || (n.phase == ir::Phase::kForward && MaySave(graph, n, storage));
    }
    if (read && written && !counted) return w.node;
    written = true;
    read = false;
    next = std::max(next, w.node + 1);
  }
  return -1;
}

}  // namespace framefuse::tracing
