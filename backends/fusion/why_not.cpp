#include "backends/fusion/why_not.h"

#include <set>
#include <string>
#include <utility>

#include "backends/fusion/gather.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/scan.h"

namespace framefuse::fusion {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeIndex;
using ir::ValueId;

std::string PlaceOf(const Graph& g, const Node& n) {
  if (n.origin < 0) return "";
  const ir::Origin& origin = g.origins[static_cast<std::size_t>(n.origin)];
  return " (" + origin.file + ":" + std::to_string(origin.line) + ")";
}

const char* WhyAlone(const Graph& g, const Node& n) {
  ReductionForm form;
  if (n.op->has_side_effect()) return "it has an effect besides its result";
  if (n.op->is_random()) return "it draws random numbers";
  if (n.op->is_sized_by_values()) return "the size of its result depends on values";
  if (IsPointwise(g, n) || IsReduction(g, n, &form))
    return "all of its operands are numbers, or it has too many dimensions";
  if (GatherOf(g, n) || ScanOf(g, n)) return "alone it is as fast";
  return "no kernel of framefuse's computes it";
}

std::string ShapeText(const Graph& g, const Group& group) {
  std::string text = "[";
  for (std::size_t i = 0; i < group.shape.size(); ++i) text += (i > 0 ? ", " : "") + g.exprs.Print(group.shape[i]);
  return text + "]";
}

std::string WhyApart(const Graph& g, const Group& a, const Group& b) {
  if (a.shape != b.shape) return "they go over different sizes, " + ShapeText(g, a) + " and " + ShapeText(g, b);
  if (a.has_reduction() && b.has_reduction() && (a.reduce_begin != b.reduce_begin || a.reduce_end != b.reduce_end)) {
    return "they reduce different dimensions";
  }
  return "one kernel would have to wait for another one's result, or would get too large";
}

}  // namespace

std::string WhyNot(const Graph& g, const Schedule& schedule) {
  std::string text;
  const std::vector<NodeIndex> definitions = g.Definitions();
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const int mine = schedule.home[i];
    if (mine < 0) {
      if (n.op->is_view()) continue;  // moves no data
      text += "\n  " + n.op->name() + PlaceOf(g, n) + " is ATen's: " + WhyAlone(g, n);
      continue;
    }
    ir::ForEachUse(n, [&](ValueId v) {
      const NodeIndex producer = definitions[static_cast<std::size_t>(v)];
      const int other = producer == kNoNode ? -1 : schedule.home[static_cast<std::size_t>(producer)];
      if (other < 0 || other == mine || !seen.emplace(other, mine).second) return;
      const Group& a = schedule.groups[static_cast<std::size_t>(other)];
      const Group& b = schedule.groups[static_cast<std::size_t>(mine)];
      text += "\n  " + Describe(g, a) + " and " + Describe(g, b) + " stay apart: " + WhyApart(g, a, b);
    });
  }
  return text;
}

}  // namespace framefuse::fusion
