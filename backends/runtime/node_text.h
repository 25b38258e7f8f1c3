// What a node is called in errors and explanations: the operator and the user's line.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_NODE_TEXT_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_NODE_TEXT_H_

#include <string>

#include "backends/graph/graph.h"

namespace framefuse {

// "aten.add.Tensor (model.py:12 in forward: x + r)"
std::string DescribeNode(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_NODE_TEXT_H_
