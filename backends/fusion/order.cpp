#include "backends/fusion/order.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>

#include "backends/fusion/sinks.h"

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
    std::vector<std::size_t> order = Order(units, ByProgram(units));
    if (std::any_of(g_.nodes.begin(), g_.nodes.end(), ir::WaitsForOthers)) {
      order = WithSinksBeforeWaits(units, Order(units, ByReaders(units, order)));
    }
    for (std::size_t u : order) schedule.items.push_back({units.group[u], units.nodes[u]});
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

  bool IsWait(const Units& units, std::size_t unit) const {
    return ir::WaitsForOthers(node(units.nodes[unit].front()));
  }

  // Of units whose needs are met, the one of the lowest rank is next.
  std::vector<std::size_t> Order(const Units& units, const std::vector<std::size_t>& ranks) const {
    using Entry = std::pair<std::size_t, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<std::size_t> open(units.nodes.size()), order;
    for (std::size_t u = 0; u < units.nodes.size(); ++u) {
      open[u] = units.needs[u].size();
      if (open[u] == 0) ready.emplace(ranks[u], u);
    }
    while (!ready.empty()) {
      const std::size_t u = ready.top().second;
      ready.pop();
      order.push_back(u);
      for (int f : units.feeds[u]) {
        if (--open[At(f)] == 0) ready.emplace(ranks[At(f)], At(f));
      }
    }
    return order;
  }

  std::vector<std::size_t> ByProgram(const Units& units) const {
    std::vector<std::size_t> ranks;
    for (std::size_t u = 0; u < units.nodes.size(); ++u) {
      const NodeIndex first = units.nodes[u].front();
      ranks.push_back(At(IsWait(units, u) ? waits_.LatestPlaceOf(first) : first));
    }
    return ranks;
  }

  // As they came, but each wait right before the first unit that needs it: that may have come later than its first
  // node.
  std::vector<std::size_t> ByReaders(const Units& units, const std::vector<std::size_t>& order) const {
    std::vector<std::size_t> ranks(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = 2 * i + 1;
    const std::vector<std::size_t> came = ranks;
    for (std::size_t u = 0; u < ranks.size(); ++u) {
      if (!IsWait(units, u)) continue;
      ranks[u] = 2 * order.size();
      for (int f : units.feeds[u]) ranks[u] = std::min(ranks[u], came[At(f)] - 1);
    }
    return ranks;
  }

  // Sinks run while others speak to other processes: all that are ready come right before a wait.
  std::vector<std::size_t> WithSinksBeforeWaits(const Units& units, const std::vector<std::size_t>& order) const {
    std::vector<bool> of_sink(g_.nodes.size(), false);
    const Sinks sinks(g_);
    for (const auto& [product, views] : sinks.views()) {
      of_sink[At(product)] = true;
      for (NodeIndex view : views) of_sink[At(view)] = true;
    }
    std::vector<std::size_t> result, in_order;  // the second: of what is kept
    std::set<int> kept;
    const auto give = [&] {
      result.insert(result.end(), in_order.begin(), in_order.end());
      in_order.clear();
      kept.clear();
    };
    const auto needs_kept = [&](std::size_t u) {
      return std::any_of(units.needs[u].begin(), units.needs[u].end(), [&](int n) { return kept.contains(n); });
    };
    auto waits = std::count_if(order.begin(), order.end(), [&](std::size_t u) { return IsWait(units, u); });
    for (std::size_t u : order) {
      if (waits > 0 && units.group[u] < 0 && of_sink[At(units.nodes[u].front())]) {
        kept.insert(static_cast<int>(u));
        in_order.push_back(u);
        continue;
      }
      if (IsWait(units, u) || needs_kept(u)) give();
      waits -= IsWait(units, u) ? 1 : 0;
      result.push_back(u);
    }
    return result;
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
