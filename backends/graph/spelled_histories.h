// Marks of histories (History, Node::detached_uses) spelled as nodes: what eager detaches, or computes without
// gradients, is detached by name. Texts of graphs and torch's own engine know no marks.
// Invariant: values are what they were.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_SPELLED_HISTORIES_H_
#define FRAMEFUSE_BACKENDS_GRAPH_SPELLED_HISTORIES_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "backends/graph/graph.h"

namespace framefuse::ir {

// Whether the use, counted as ForEachUse does, is marked.
bool IsDetached(const Node& n, std::size_t use);
// So too: that it counts versions for itself, as x.data does.
bool IsUncounted(const Node& n, std::size_t use);

// Only what has a history needs to be detached.
void SpellHistories(Graph& g, absl::FunctionRef<bool(ValueId)> has_history);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_SPELLED_HISTORIES_H_
