// Why nodes do not share a kernel, for the log `fusion`: of each node that runs as an ATen operator, and of each group
// that reads what another group made. Invariant: only reads; a reason is one that holds, not all that do.
#ifndef FRAMEFUSE_BACKENDS_FUSION_WHY_NOT_H_
#define FRAMEFUSE_BACKENDS_FUSION_WHY_NOT_H_

#include <string>

#include "backends/fusion/group.h"

namespace framefuse::fusion {

std::string WhyNot(const ir::Graph& graph, const Schedule& schedule);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_WHY_NOT_H_
