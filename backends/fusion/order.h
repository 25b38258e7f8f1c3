// The order of a plan's steps: groups, and nodes that run as ATen operators, each after what it needs.
#ifndef FRAMEFUSE_BACKENDS_FUSION_ORDER_H_
#define FRAMEFUSE_BACKENDS_FUSION_ORDER_H_

#include <vector>

#include "backends/fusion/group.h"
#include "backends/fusion/waits.h"

namespace framefuse::fusion {

// Effects and random numbers.
inline bool KeepsOrder(const ir::Node& n) {
  return (n.op->has_side_effect() && !ir::WaitsForOthers(n)) || n.op->is_random();
}

// `group_of`: for each node the group that makes its result, or -1. Groups without nodes are none.
Schedule OrderGroups(const ir::Graph& graph, const Waits& waits, const std::vector<ir::NodeIndex>& definitions,
                     const std::vector<Group>& groups, const std::vector<int>& group_of);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_ORDER_H_
