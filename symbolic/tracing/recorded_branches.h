// RecordedBranches: the branches of conditionals that a recording has open or has ended (record_branch.h).
// Invariant: what a node of a branch made is used in that branch alone.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_BRANCHES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_BRANCHES_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "backends/graph/graph.h"
#include "symbolic/tracing/op_traits.h"

namespace framefuse::tracing {

class Recorder;

struct OpenBranch {
  std::size_t first_node = 0;
  std::vector<at::Tensor> read;  // once each, its own among them
};
struct RecordedBranch {
  std::vector<ir::Node> nodes;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> read;  // from outside
};

class RecordedBranches {
 public:
  bool any_open() const { return !open_.empty(); }
  void Open(const ir::Graph& graph);
  // Ends the innermost open branch: its nodes leave the graph.
  OpenBranch Close(ir::Graph& graph, std::vector<ir::Node>* nodes);
  bool LeftGraph(ir::ValueId value) const { return left_graph_.contains(value); }
  // A value that an operator reads: of a branch that is open, or of one that was.
  void NoteRead(Recorder& recorder, const at::Tensor& t, ir::ValueId value, const OpTraits& traits);

  void Add(RecordedBranch branch) { recorded_.push_back(std::move(branch)); }
  RecordedBranch Take();  // the last one

  // Histories of what a conditional may read are cut till it is joined.
  void CutHistories(std::function<void()> restore) { cut_histories_.push_back(std::move(restore)); }
  void RestoreHistories();

 private:
  std::vector<OpenBranch> open_;  // innermost last
  std::vector<RecordedBranch> recorded_;
  std::vector<std::function<void()>> cut_histories_;  // innermost last
  absl::flat_hash_set<ir::ValueId> left_graph_;       // made by nodes of branches
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORDED_BRANCHES_H_
