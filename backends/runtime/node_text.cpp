#include "backends/runtime/node_text.h"

#include "absl/strings/str_cat.h"
#include "common/index.h"

namespace framefuse {

std::string DescribeNode(const ir::Graph& graph, const ir::Node& node) {
  if (node.origin < 0) return node.op->name();
  const ir::Origin& o = graph.origins[At(node.origin)];
  return absl::StrCat(node.op->name(), " (", o.file, ":", o.line, " in ", o.function, ": ", o.source, ")");
}

}  // namespace framefuse
