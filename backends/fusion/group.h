// Grouping: which nodes of a functional graph share a kernel.
// A group has one iteration space; each of its values is `full` (that shape) or `row` (size 1 in the reduced
// dimensions). It may hold one set of reduced dimensions: the last ones (row group) or a range before kept ones
// (column group). Cheap producers are cloned into several groups where that moves fewer bytes.
// Invariant: the condensed graph is acyclic, and Schedule lists it in an executable order.
#ifndef FRAMEFUSE_BACKENDS_FUSION_GROUP_H_
#define FRAMEFUSE_BACKENDS_FUSION_GROUP_H_

#include <string>
#include <vector>

#include "backends/fusion/reduction.h"
#include "backends/graph/graph.h"

namespace framefuse::fusion {

enum class GroupKind : std::uint8_t { kPointwise, kRow, kColumn };

struct Group {
  GroupKind kind = GroupKind::kPointwise;
  std::vector<ir::NodeIndex> nodes;  // in graph order
  std::vector<ir::Dim> shape;
  std::size_t reduce_begin = 0, reduce_end = 0;  // dimensions; equal: none
  std::size_t inner_begin = 0;  // of a column group: kept dimensions from here on are the columns, others batches

  bool has_reduction() const { return reduce_begin < reduce_end; }
  bool Contains(ir::NodeIndex n) const;
};

// One step of a plan: a group, or (group < 0) nodes that run as ATen operators.
struct ScheduleItem {
  int group = -1;
  std::vector<ir::NodeIndex> nodes;
};

struct Schedule {
  std::vector<Group> groups;
  std::vector<int> home;  // for each node the group whose result counts; -1: ATen. Other groups may hold clones.
  std::vector<ScheduleItem> items;
};

Schedule MakeSchedule(const ir::Graph& graph);
// For the log "fusion" and explain.
std::string Describe(const ir::Graph& graph, const Group& group);
// For profilers: `ff: mul, add, gelu`, each operator once.
std::string RangeNameOf(const ir::Graph& graph, const Group& group);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_GROUP_H_
