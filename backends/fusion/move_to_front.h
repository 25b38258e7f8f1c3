// MoveSmallToFront: kernels of a few numbers that need nothing but the graph's inputs run first. One after the other
// they are one step (MergeHorizontally): the scales of all batch norms of a model are one kernel. Those that make
// nothing but results, as the counts of all batch norms, run last. So do copies: weights and their gradients in another
// memory format are one kernel for each shape. Only where gradients are awaited one by one (Executable::RunTelling)
// each is copied as soon as it is there. Invariant: the order of a schedule stays one that the graph allows.
#ifndef FRAMEFUSE_BACKENDS_FUSION_MOVE_TO_FRONT_H_
#define FRAMEFUSE_BACKENDS_FUSION_MOVE_TO_FRONT_H_

#include "backends/fusion/group.h"

namespace framefuse::fusion {

void MoveSmallToFront(const ir::Graph& graph, bool early, Schedule* schedule);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_MOVE_TO_FRONT_H_
