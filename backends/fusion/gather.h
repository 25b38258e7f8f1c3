// Row gathers: operators that take those rows of a table that an index tensor names. A group reads them as it needs
// them.
#ifndef FRAMEFUSE_BACKENDS_FUSION_GATHER_H_
#define FRAMEFUSE_BACKENDS_FUSION_GATHER_H_

#include <optional>

#include "backends/graph/graph.h"

namespace framefuse::fusion {

struct GatherForm {
  ir::ValueId table = ir::kNoValue, index = ir::kNoValue;
  std::size_t index_rank = 0;  // the result has the index's dimensions, then a row's
  bool wraps = false;          // what is negative counts from the end
};

// Nothing: the node is none, or none that kernels have.
std::optional<GatherForm> GatherOf(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_GATHER_H_
