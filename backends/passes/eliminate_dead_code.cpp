// Drops nodes that no output and no write of an input needs.
#include <utility>

#include "backends/graph/collectives.h"
#include "backends/passes/aliases.h"
#include "backends/passes/pass.h"
#include "common/index.h"

namespace framefuse {

// Backwards. A root is live once a later node or output reads it or a view of it; a write is kept if its target's
// root is live or belongs to an input.
absl::StatusOr<bool> EliminateDeadCode(ir::Graph& g) {
  Aliases aliases(g);
  std::vector<bool> live(g.values.size(), false);
  std::vector<bool> live_root(g.values.size(), false);
  auto mark = [&](ir::ValueId v) {
    live[At(v)] = true;
    live_root[At(aliases.RootOf(v))] = true;
  };
  for (const ir::Output& o : g.outputs) {
    if (o.value != ir::kNoValue) mark(o.value);
  }
  std::vector<bool> keep(g.nodes.size(), false);
  std::size_t kept = 0;
  for (std::size_t i = g.nodes.size(); i-- > 0;) {
    const ir::Node& n = g.nodes[i];
    // A backward pass comes to what gradients go through that somebody asks for, and to nothing else.
    const bool of_gradients = n.phase == ir::Phase::kBackward && ir::SpeaksToOthers(n);
    bool needed = n.op->is_random() || (n.op->has_side_effect() && !of_gradients);
    for (ir::ValueId v : n.outputs) needed = needed || (v != ir::kNoValue && live[At(v)]);
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ir::ValueId v) {
        needed = needed || aliases.FromInput(v) || live_root[At(aliases.RootOf(v))];
      });
    }
    if (!needed) continue;
    keep[i] = true;
    ++kept;
    ir::ForEachUse(n, mark);
  }
  if (kept == g.nodes.size()) return false;
  std::vector<ir::Node> nodes;
  nodes.reserve(kept);
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    if (keep[i]) nodes.push_back(std::move(g.nodes[i]));
  }
  g.nodes = std::move(nodes);
  return true;
}

}  // namespace framefuse
