// What groups are called. See group.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/fusion/group.h"

namespace framefuse::fusion {
namespace {

// aten.add.Tensor: add
std::string ShortName(const ir::Graph& graph, ir::NodeIndex n) {
  const std::string& name = graph.nodes[static_cast<std::size_t>(n)].op->name();
  const std::string rest = name.substr(name.find('.') + 1);
  return rest.substr(0, rest.find('.'));
}

}  // namespace

std::string Describe(const ir::Graph& graph, const Group& group) {
  constexpr const char* kKinds[] = {"pointwise", "row", "column"};
  const auto name = [&](std::string* out, ir::NodeIndex n) { *out += ShortName(graph, n); };
  std::string out = absl::StrCat(kKinds[static_cast<int>(group.kind)], ": ", absl::StrJoin(group.nodes, ", ", name));
  for (ir::NodeIndex i : group.nodes) {
    const ir::OriginId o = graph.nodes[static_cast<std::size_t>(i)].origin;
    if (o < 0) continue;
    const ir::Origin& origin = graph.origins[static_cast<std::size_t>(o)];
    return absl::StrCat(out, " (", origin.file, ":", origin.line, ")");
  }
  return out;
}

std::string RangeNameOf(const ir::Graph& graph, const Group& group) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> names;
  for (ir::NodeIndex i : group.nodes) {
    std::string name = ShortName(graph, i);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  const std::size_t more = names.size() - std::min(names.size(), kMost);
  names.resize(names.size() - more);
  return absl::StrCat("ff: ", absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace framefuse::fusion
