// Scans: operators that give each point the sum of those before it along a dimension, and itself.
#ifndef FRAMEFUSE_BACKENDS_FUSION_SCAN_H_
#define FRAMEFUSE_BACKENDS_FUSION_SCAN_H_

#include <optional>

#include "backends/graph/graph.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::fusion {

struct ScanForm {
  std::size_t dim = 0;
  kernel_ir::Type type = kernel_ir::Type::kF64;  // that eager adds in
};

// Nothing: the node is none, or none that kernels have. Those are the CPU's, and add in eager's order.
std::optional<ScanForm> ScanOf(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_SCAN_H_
