// Places: values that kernels write where a concatenation has them, so that it has nothing left to copy.
// Invariant: a placed value has the strides of the whole and no other reader; the whole is allocated by the first
// kernel that writes to it. What could not be written there (a group that runs as ATen operators) the concatenation
// copies.
#ifndef FRAMEFUSE_BACKENDS_FUSION_PLACES_H_
#define FRAMEFUSE_BACKENDS_FUSION_PLACES_H_

#include <map>
#include <memory>
#include <set>

#include "backends/fusion/group.h"
#include "backends/fusion/growing_cats.h"
#include "backends/fusion/step.h"

namespace framefuse::fusion {

struct Places {
  std::map<ir::ValueId, Place> of;        // placed values
  std::set<ir::NodeIndex> joined;         // concatenations and pads that run as steps of their own
  std::map<ir::NodeIndex, Growth> grown;  // those of them that share the memory of a longer one
};
// Gives the placed values their strides.
Places PlacePieces(ir::Graph* graph, const Schedule& schedule);

// A node of `joined`.
std::unique_ptr<Step> MakeJoinStep(const ir::Graph& graph, ir::NodeIndex node, const Places& places);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_PLACES_H_
