// Subgraph: copies chosen nodes of a graph into a new graph with chosen inputs and outputs.
// Invariant: values are renumbered, metadata, origins, constants and expressions are kept; a node whose inputs are
// neither inputs, constants nor results of chosen nodes is an error that Verify reports.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_SUBGRAPH_H_
#define FRAMEFUSE_BACKENDS_GRAPH_SUBGRAPH_H_

#include <vector>

#include "backends/graph/graph.h"

namespace framefuse::ir {

class SubgraphBuilder {
 public:
  explicit SubgraphBuilder(const Graph& from, std::string name);

  void AddInput(ValueId value, Input facts);  // `facts.value` is set here
  void AddNode(const Node& node);             // values that it uses must be there already
  void AddOutput(Output facts);               // facts.value is of the old graph; renumbered here
  bool Has(ValueId value) const { return map_[static_cast<std::size_t>(value)] != kNoValue; }
  Graph Take() { return std::move(graph_); }

 private:
  ValueId Define(ValueId value);
  ValueId Use(ValueId value);

  const Graph& from_;
  Graph graph_;
  std::vector<ValueId> map_;
  std::vector<std::int32_t> constant_of_;  // index into from_.constants, -1
};

// For each node whether it is needed for `values`; nodes with effects and random ones are not added.
std::vector<bool> NodesNeededFor(const Graph& graph, const std::vector<ValueId>& values);
// The output whose history is that of `o`: what it is a view of, or itself.
const Output& WithHistory(const Graph& graph, const Output& o);
// The inputs that a value is computed from, tangents apart.
std::vector<std::int32_t> InputsNeededFor(const Graph& graph, ValueId value);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_SUBGRAPH_H_
