#include "backends/fusion/order.h"

#include <queue>
#include <set>
#include <utility>

namespace framefuse::fusion {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeIndex;
using ir::ValueId;

class Orderer {
 public:
  Orderer(const Graph& graph, const Waits& waits, const std::vector<NodeIndex>& definitions,
          const std::vector<Group>& groups, const std::vector<int>& group_of)
      : g_(graph), waits_(waits), definitions_(definitions), groups_(groups), group_of_(group_of) {}

  Schedule Run() {
    Schedule schedule;
    Units units;
    MakeUnits(&schedule, &units);
    FindDependencies(&units);
    using Entry = std::pair<NodeIndex, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<std::size_t> open(units.nodes.size());
    const auto offer = [&](std::size_t u) { ready.push({PlaceOf(units.nodes[u]), static_cast<int>(u)}); };
    for (std::size_t u = 0; u < units.nodes.size(); ++u) {
      open[u] = units.needs[u].size();
      if (open[u] == 0) offer(u);
    }
    while (!ready.empty()) {
      const auto u = static_cast<std::size_t>(ready.top().second);
      ready.pop();
      schedule.items.push_back({units.group[u], units.nodes[u]});
      for (int f : units.feeds[u]) {
        if (--open[static_cast<std::size_t>(f)] == 0) offer(static_cast<std::size_t>(f));
      }
    }
    return schedule;
  }

 private:
  // What runs as one: a group, or a node of its own.
  struct Units {
    std::vector<std::vector<NodeIndex>> nodes;
    std::vector<int> group;    // in the schedule, or -1
    std::vector<int> of_node;  // unit that makes a node's results
    std::vector<std::set<int>> needs, feeds;

    void Add(std::vector<NodeIndex> unit, int of_group) {
      nodes.push_back(std::move(unit));
      group.push_back(of_group);
    }
    void Depend(int unit, int on) {
      needs[static_cast<std::size_t>(unit)].insert(on);
      feeds[static_cast<std::size_t>(on)].insert(unit);
    }
  };

  NodeIndex PlaceOf(const std::vector<NodeIndex>& unit) const {
    return ir::WaitsForOthers(node(unit.front())) ? waits_.LatestPlaceOf(unit.front()) : unit.front();
  }

  void MakeUnits(Schedule* schedule, Units* units) {
    units->of_node.assign(g_.nodes.size(), -1);
    schedule->home.assign(g_.nodes.size(), -1);
    for (const Group& group : groups_) {
      if (group.nodes.empty()) continue;
      const auto place = static_cast<int>(schedule->groups.size());
      for (NodeIndex n : group.nodes) {
        if (&groups_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(n)])] != &group) continue;
        units->of_node[static_cast<std::size_t>(n)] = static_cast<int>(units->nodes.size());
        schedule->home[static_cast<std::size_t>(n)] = place;
      }
      units->Add(group.nodes, place);
      schedule->groups.push_back(group);
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (units->of_node[i] >= 0) continue;
      units->of_node[i] = static_cast<int>(units->nodes.size());
      units->Add({static_cast<NodeIndex>(i)}, -1);
    }
  }

  // A unit needs those that make what it reads; nodes with effects need those before them.
  void FindDependencies(Units* units) {
    units->needs.resize(units->nodes.size());
    units->feeds.resize(units->nodes.size());
    for (std::size_t u = 0; u < units->nodes.size(); ++u) {
      const std::set<NodeIndex> inside(units->nodes[u].begin(), units->nodes[u].end());
      for (NodeIndex n : units->nodes[u]) {
        ir::ForEachUse(node(n), [&](ValueId v) {
          const NodeIndex p = definitions_[static_cast<std::size_t>(v)];
          if (p == kNoNode || inside.contains(p)) return;
          units->Depend(static_cast<int>(u), units->of_node[static_cast<std::size_t>(p)]);
        });
        for (NodeIndex w : waits_.Before(n))
          units->Depend(static_cast<int>(u), units->of_node[static_cast<std::size_t>(w)]);
      }
    }
    int before = -1;
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (!KeepsOrder(g_.nodes[i])) continue;
      if (before >= 0 && units->of_node[i] != before) units->Depend(units->of_node[i], before);
      before = units->of_node[i];
    }
  }

  const Node& node(NodeIndex n) const { return g_.nodes[static_cast<std::size_t>(n)]; }

  const Graph& g_;
  const Waits& waits_;
  const std::vector<NodeIndex>& definitions_;
  const std::vector<Group>& groups_;
  const std::vector<int>& group_of_;
};

}  // namespace

Schedule OrderGroups(const Graph& graph, const Waits& waits, const std::vector<NodeIndex>& definitions,
                     const std::vector<Group>& groups, const std::vector<int>& group_of) {
  return Orderer(graph, waits, definitions, groups, group_of).Run();
}

}  // namespace framefuse::fusion
