#include "symbolic/tracing/uncounted_writes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "symbolic/tracing/shared_elements.h"
#include "symbolic/tracing/version_counter.h"

namespace framefuse::tracing {
namespace {

// Whether eager's node of `n` may have saved what is written later: as an operand, or as what it computed.
bool MaySave(const ir::Graph& graph, const ir::Node& n, const ir::Value& written) {
  if (n.phase != ir::Phase::kForward || n.history == ir::History::kCut || n.op->is_view()) return false;
  bool found = false;
  const auto look = [&](ir::ValueId v) {
    const ir::Value& value = graph.value(v);
    found = found || (value.storage == written.storage && ShareElements(graph.exprs, value, written));
  };
  ir::ForEachUse(n, look);
  for (const ir::ValueId v : n.outputs) {
    if (v != ir::kNoValue) look(v);
  }
  return found;
}

bool IsMadeFrom(const ir::Graph& graph, int node, ir::ValueId value) {
  return std::any_of(graph.nodes.begin() + node, graph.nodes.end(), [value](const ir::Node& n) {
    return std::find(n.outputs.begin(), n.outputs.end(), value) != n.outputs.end();
  });
}

}  // namespace

void UncountedWrites::Note(const at::Tensor& written, ir::ValueId value, ir::StorageId storage, int node) {
  writes_[storage].push_back({CounterOf(written), value, node});
}

void UncountedWrites::MarkIn(ir::Graph* graph, Counts counted_by_input) const {
  for (const auto& [storage, writes] : writes_) {
    for (const Write& w : writes) {
      const bool is_there = static_cast<std::size_t>(w.node) < graph->nodes.size();  // the last one may have broken
      if (!is_there || counted_by_input(storage, w.counter)) continue;
      ir::Node& n = graph->nodes[static_cast<std::size_t>(w.node)];
      std::size_t use = 0;
      ir::ForEachUse(n, [&](ir::ValueId v) {
        if (v == w.value && use < 64) n.uncounted_uses |= std::uint64_t{1} << use;
        ++use;
      });
    }
  }
}

int UncountedWrites::FirstBehindARead(const ir::Graph& graph, const at::Tensor& saved, ir::ValueId value,
                                      bool is_input) const {
  const auto found = writes_.find(graph.value(value).storage);
  if (found == writes_.end()) return -1;
  bool written_before = !is_input;
  int from = 0;  // the node behind the last write
  for (const Write& w : found->second) {
    const ir::Value& written = graph.value(w.value);
    if (!ShareElements(graph.exprs, graph.value(value), written)) continue;
    // What was saved before a counted one is refused by the backward.
    const bool counted = SameCounter(w.counter, CounterOf(saved));
    if (written_before && !counted && !IsMadeFrom(graph, w.node, value)) {
      const auto begin = graph.nodes.begin() + from, end = graph.nodes.begin() + w.node;
      if (std::any_of(begin, end, [&](const ir::Node& n) { return MaySave(graph, n, written); })) return w.node;
    }
    written_before = true;
    from = w.node + 1;
  }
  return -1;
}

}  // namespace framefuse::tracing
