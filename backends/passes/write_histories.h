// WriteHistories: which values of a graph that is being made functional autograd has a history of.
// A write that autograd does not see (in no_grad, of t.data) leaves what is written with the history that it had:
// a second derivative goes there, and through nothing that was written. Invariant: as ir::History says of the nodes
// that were noted, in their order.
#ifndef FRAMEFUSE_BACKENDS_PASSES_WRITE_HISTORIES_H_
#define FRAMEFUSE_BACKENDS_PASSES_WRITE_HISTORIES_H_

#include <cstddef>
#include <vector>

#include "backends/graph/graph.h"
#include "common/index.h"

namespace framefuse {

class WriteHistories {
 public:
  explicit WriteHistories(const ir::Graph& recorded);

  void Note(const ir::Node& n);
  // Whether the value carries a derivative of an input that has a gradient.
  bool Carry(ir::ValueId v) const { return At(v) < carry_.size() && carry_[At(v)]; }
  // Whether the node, which has no history, computes `value` from `before` as its first argument: it can be marked.
  static bool Writes(const ir::Node& n, ir::ValueId before, ir::ValueId value);

 private:
  std::vector<bool> carry_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_WRITE_HISTORIES_H_
