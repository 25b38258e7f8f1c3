// UncountedWrites: writes that the version of a saved tensor does not count (`x.data.mul_(2)`). Eager's nodes find in
// memory what is there when a pass runs; ours do so of an input that no other write comes before such a read.
// Of all else a graph has to end before the write: what it has saved is an input of the next one then.
// Invariant: a write is here by the number that its node has in the recording.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_UNCOUNTED_WRITES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_UNCOUNTED_WRITES_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "backends/graph/graph.h"

namespace framefuse::tracing {

class UncountedWrites {
 public:
  // `value`: the tensor's.
  void Note(const at::Tensor& written, ir::ValueId value, ir::StorageId storage, int node);
  // Marks the nodes of `graph` whose writes no input counts: ir::Node::uncounted_uses.
  using Counts = absl::FunctionRef<bool(ir::StorageId, const c10::VariableVersion&)>;
  void MarkIn(ir::Graph* graph, Counts counted_by_input) const;
  // Of the recording's forward nodes the first before which the graph has to end so that its backward may read `saved`;
  // -1: none. `is_input`: whether that is an input's memory.
  int FirstBehindARead(const ir::Graph& graph, const at::Tensor& saved, ir::ValueId value, bool is_input) const;

 private:
  struct Write {
    c10::VariableVersion counter;  // of the tensor that was written through
    ir::ValueId value;
    int node;
  };
  absl::flat_hash_map<ir::StorageId, std::vector<Write>> writes_;  // all that there are, counted by others or not
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_UNCOUNTED_WRITES_H_
