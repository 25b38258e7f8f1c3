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
#include "backends/fusion/step.h"

namespace framefuse::fusion {

struct Places {
  std::map<ir::ValueId, Place> of;  // placed values
  std::set<ir::NodeIndex> joined;   // concatenations that run as steps of their own
};
// Gives the placed values their strides.
Places PlacePieces(ir::Graph* graph, const Schedule& schedule);

// A node of `joined`.
std::unique_ptr<Step> MakeCatStep(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_PLACES_H_
