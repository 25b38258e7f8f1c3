// Sharing: which values of a graph may lie in one memory when it runs. Aliases (backends/passes) says what schemas say;
// here an operator that is no kernel's may return its argument, too (contiguous, to, wait_tensor …).
// Invariant: values that may share memory have one root.
#ifndef FRAMEFUSE_BACKENDS_FUSION_SHARING_H_
#define FRAMEFUSE_BACKENDS_FUSION_SHARING_H_

#include <vector>

#include "backends/fusion/node_kinds.h"
#include "backends/graph/collectives.h"
#include "backends/graph/graph.h"
#include "backends/passes/aliases.h"
#include "common/index.h"

namespace framefuse::fusion {

// It speaks to other processes of a copy of its arguments.
inline bool CopiesForOthers(const ir::Node& n) { return ir::SpeaksToOthers(n) && !ir::WaitsForOthers(n); }

// Its results are in memory that it allocates.
inline bool MakesItsOwn(const ir::Node& n) { return IsProduct(n) || IsConvolution(n) || CopiesForOthers(n); }

// `to`, a result of n, may lie in the memory of `from`, which n is given.
inline bool MayShare(const ir::Graph& graph, const ir::Node& n, ir::ValueId from, ir::ValueId to) {
  if (ViewedArgument(*n.op) >= 0) return true;
  if (n.op->is_pointwise() || MakesItsOwn(n)) return false;
  const ir::Value &a = graph.value(from), &b = graph.value(to);
  return a.sizes == b.sizes && a.dtype == b.dtype;
}

class Sharing {
 public:
  explicit Sharing(const ir::Graph& graph) : root_(graph.values.size()) {
    for (std::size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<ir::ValueId>(v);
    for (const ir::Node& n : graph.nodes) {
      ir::ForEachUse(n, [&](ir::ValueId from) {
        for (const ir::ValueId to : n.outputs) {
          if (to != ir::kNoValue && MayShare(graph, n, from, to)) root_[At(RootOf(to))] = RootOf(from);
        }
      });
    }
  }

  ir::ValueId RootOf(ir::ValueId v) const {
    while (root_[At(v)] != v) v = root_[At(v)];
    return v;
  }

 private:
  std::vector<ir::ValueId> root_;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_SHARING_H_
