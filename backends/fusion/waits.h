// Waits: which nodes read memory that other processes write until some node has waited for them. The graph says it by
// the program's order alone: the result of a wait is the tensor that it was given, by a second name.
#ifndef FRAMEFUSE_BACKENDS_FUSION_WAITS_H_
#define FRAMEFUSE_BACKENDS_FUSION_WAITS_H_

#include <algorithm>
#include <map>
#include <vector>

#include "backends/graph/collectives.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

class Waits {
 public:
  explicit Waits(const ir::Graph& graph) : before_(graph.nodes.size()) {
    std::map<ir::StorageId, std::vector<ir::NodeIndex>> of_memory;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto place = static_cast<ir::NodeIndex>(i);
      const bool waits = ir::WaitsForOthers(graph.nodes[i]);
      if (of_memory.empty() && !waits) continue;
      ir::ForEachUse(graph.nodes[i], [&](ir::ValueId v) {
        const auto it = of_memory.find(graph.value(v).storage);
        if (it == of_memory.end() || it->first < 0) return;
        before_[i].insert(before_[i].end(), it->second.begin(), it->second.end());
        for (ir::NodeIndex wait : it->second) first_reader_.emplace(wait, place);
      });
      if (waits)
        ir::ForEachUse(graph.nodes[i], [&](ir::ValueId v) { of_memory[graph.value(v).storage].push_back(place); });
    }
    end_ = static_cast<ir::NodeIndex>(graph.nodes.size());
  }

  const std::vector<ir::NodeIndex>& Before(ir::NodeIndex node) const { return before_[static_cast<std::size_t>(node)]; }
  // As late as it may come, so that others compute meanwhile.
  ir::NodeIndex LatestPlaceOf(ir::NodeIndex wait) const {
    const auto it = first_reader_.find(wait);
    return it == first_reader_.end() ? end_ : it->second;
  }

 private:
  std::vector<std::vector<ir::NodeIndex>> before_;
  std::map<ir::NodeIndex, ir::NodeIndex> first_reader_;
  ir::NodeIndex end_ = 0;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_WAITS_H_
