// Sinks: products of a graph that only make results of it: nothing but views of their results read them, and nothing
// reads those (the gradients of weights). They may run as late as one likes. Invariant: a sink's views are its own, and
// stand behind it in the graph's order.
#ifndef FRAMEFUSE_BACKENDS_FUSION_SINKS_H_
#define FRAMEFUSE_BACKENDS_FUSION_SINKS_H_

#include <algorithm>
#include <map>
#include <vector>

#include "backends/fusion/node_kinds.h"
#include "backends/passes/aliases.h"
#include "common/index.h"

namespace framefuse::fusion {

class Sinks {
 public:
  explicit Sinks(const ir::Graph& graph) {
    std::vector<bool> is_output(graph.values.size(), false);
    for (const ir::Output& o : graph.outputs) {
      if (o.value != ir::kNoValue) is_output[At(o.value)] = true;
    }
    std::vector<std::vector<ir::NodeIndex>> readers(graph.values.size());
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      ir::ForEachUse(graph.nodes[n], [&](ir::ValueId v) { readers[At(v)].push_back(static_cast<ir::NodeIndex>(n)); });
    }
    // Whether nothing but views reads it, to the end; those are added.
    const auto ends = [&](const auto& self, ir::ValueId v, std::vector<ir::NodeIndex>* views) -> bool {
      const std::vector<ir::NodeIndex>& by = readers[At(v)];
      views->insert(views->end(), by.begin(), by.end());
      return (is_output[At(v)] || !by.empty()) && std::all_of(by.begin(), by.end(), [&](ir::NodeIndex reader) {
               const ir::Node& n = graph.nodes[At(reader)];
               return ViewedArgument(*n.op) == 0 && n.outputs.size() == 1 && self(self, n.outputs[0], views);
             });
    };
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const ir::Node& product = graph.nodes[n];
      std::vector<ir::NodeIndex> views;
      if (!IsProduct(product) || product.outputs.size() != 1 || !ends(ends, product.outputs[0], &views)) continue;
      std::sort(views.begin(), views.end());
      views_[static_cast<ir::NodeIndex>(n)] = std::move(views);
    }
  }

  // By product: the views of its result.
  const std::map<ir::NodeIndex, std::vector<ir::NodeIndex>>& views() const { return views_; }

 private:
  std::map<ir::NodeIndex, std::vector<ir::NodeIndex>> views_;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_SINKS_H_
