#include "backends/runtime/node_text.h"

#include "absl/strings/str_cat.h"

namespace framefuse {

std::string DescribeNode(const ir::Graph& graph, const ir::Node& node) {
  if (node.origin < 0) return node.op->name();
  const ir::Origin& o = graph.origins[static_cast<std::size_t>(node.origin)];
  return absl::StrCat(node.op->name(), " (", o.file, ":", o.line, " in ", o.function, ": ", o.source, ")");
}

}  // namespace framefuse
