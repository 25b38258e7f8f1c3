#include "backends/fusion/move_to_front.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/graph/collectives.h"
#include "backends/graph/operators.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::NodeIndex;
using ir::ValueId;

constexpr std::int64_t kMostElements = 1 << 14;
constexpr std::int64_t kMostCopied = 1 << 18;  // a launch takes as long

class Mover {
 public:
  Mover(const Graph& graph, const Schedule& schedule)
      : g_(graph), schedule_(schedule), definitions_(graph.Definitions()), item_of_(graph.nodes.size(), 0) {
    for (std::size_t i = 0; i < schedule.items.size(); ++i) {
      const ScheduleItem& item = schedule.items[i];
      for (NodeIndex n : item.nodes) {
        const bool home = item.group < 0 || schedule.home[static_cast<std::size_t>(n)] == item.group;
        if (home) item_of_[static_cast<std::size_t>(n)] = i;
      }
    }
    for (const ir::Output& o : graph.outputs) {
      if (o.value != kNoValue) outputs_.insert(o.value);
    }
    for (const Node& n : graph.nodes) ir::ForEachUse(n, [&](ValueId v) { read_.insert(v); });
  }

  // The new order: views that such kernels need, those kernels, the rest, and kernels of nothing but results. Copies of
  // one shape are neighbours; or, if results are to be there `early`, such copies follow what they copy.
  std::vector<std::size_t> Order(bool early) {
    std::vector<int> places(schedule_.items.size(), kRest);
    std::vector<bool> views(schedule_.items.size(), false);
    std::vector<std::size_t> first_alike(schedule_.items.size(), 0);
    std::vector<After> after(schedule_.items.size());
    for (std::size_t i = 0; i < after.size(); ++i) after[i] = {i, 0};
    for (std::size_t i = 0; i < places.size(); ++i) {
      const ScheduleItem& item = schedule_.items[i];
      const bool of_views = Needs(i, [&](std::size_t by) { return views[by]; });
      views[i] = IsView(item) && of_views;
      const bool copy = IsCopy(item);
      if (!copy && !(of_views && IsSmallKernel(item, kMostElements))) continue;
      if (IsOfResults(item) && copy && early) {
        after[i] = {Follow(i, &after), 2};
      } else if (IsOfResults(item)) {
        places[i] = copy ? kLastCopy : kLast;
      } else if (of_views && !LeavesGraph(item)) {
        Move(i, copy ? kCopy : kKernel, &places);
      }
      if (places[i] == kCopy || places[i] == kLastCopy) first_alike[i] = FirstAlike(i);
    }
    std::vector<std::size_t> order(places.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(places[a], first_alike[a], after[a]) < std::tuple(places[b], first_alike[b], after[b]);
    });
    return order;
  }

 private:
  using After = std::pair<std::size_t, int>;  // an item, and 0 for that one, 1 for views of its results, 2 for copies

  // The last item that item i reads from, but for views: those follow it, too.
  std::size_t Follow(std::size_t i, std::vector<After>* after) const {
    std::size_t last = 0;
    (void)Needs(i, [&](std::size_t by) {
      if (IsView(schedule_.items[by])) (*after)[by] = {Follow(by, after), 1};
      last = std::max(last, (*after)[by].first);
      return true;
    });
    return last;
  }

  enum Place { kView, kKernel, kCopy, kRest, kLast, kLastCopy };

  // Whether `f` holds for all items that make something item i reads; inputs are there.
  template <typename F>
  bool Needs(std::size_t i, F f) const {
    bool all = true;
    for (NodeIndex n : schedule_.items[i].nodes) {
      ir::ForEachUse(g_.nodes[static_cast<std::size_t>(n)], [&](ValueId v) {
        const NodeIndex by = definitions_[v];
        const std::vector<NodeIndex>& own = schedule_.items[i].nodes;
        if (by == kNoNode || std::binary_search(own.begin(), own.end(), by)) return;
        all = all && f(item_of_[static_cast<std::size_t>(by)]);
      });
    }
    return all;
  }

  void Move(std::size_t kernel, Place place, std::vector<int>* places) const {
    (*places)[kernel] = place;
    std::vector<std::size_t> open = {kernel};
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      (void)Needs(i, [&](std::size_t by) {
        if ((*places)[by] == kRest) open.push_back(by);
        (*places)[by] = kView;
        return true;
      });
    }
  }

  bool IsView(const ScheduleItem& item) const {
    if (item.group >= 0 || item.nodes.size() != 1) return false;
    const Node& n = g_.nodes[static_cast<std::size_t>(item.nodes[0])];
    return n.op->is_view() && !n.op->is_random() && !n.op->has_side_effect();
  }

  // Of a value that is not small, but for which a launch takes as long as the copy: weights in another memory format.
  bool IsCopy(const ScheduleItem& item) const {
    static const ir::OpId kClone = ir::RequireOp(ir::OpName::kClone);
    return item.nodes.size() == 1 && g_.nodes[static_cast<std::size_t>(item.nodes[0])].op == kClone &&
           IsSmallKernel(item, kMostCopied);
  }

  // The first copy of the same memory formats and sizes.
  std::size_t FirstAlike(std::size_t copy) {
    const Node& n = g_.nodes[static_cast<std::size_t>(schedule_.items[copy].nodes[0])];
    Alike alike;
    ir::ForEachUse(n, [&](ValueId v) { alike.emplace_back(&g_.value(v)); });
    alike.emplace_back(&g_.value(n.outputs[0]));
    const auto same =
        std::find_if(alike_.begin(), alike_.end(), [&](const auto& a) { return AreAlike(a.first, alike); });
    if (same != alike_.end()) return same->second;
    alike_.emplace_back(alike, copy);
    return copy;
  }

  using Alike = std::vector<const ir::Value*>;
  static bool AreAlike(const Alike& a, const Alike& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ir::Value* x, const ir::Value* y) {
      return x->dtype == y->dtype && x->sizes == y->sizes && x->strides == y->strides;
    });
  }

  bool IsSmallKernel(const ScheduleItem& item, std::int64_t most) const {
    if (item.group < 0 || schedule_.groups[static_cast<std::size_t>(item.group)].kind != GroupKind::kPointwise) {
      return false;
    }
    return std::all_of(item.nodes.begin(), item.nodes.end(), [&](NodeIndex n) {
      const ValueId v = g_.nodes[static_cast<std::size_t>(n)].outputs[0];
      std::int64_t elements = 1;
      for (const ir::Dim& d : g_.value(v).sizes) elements *= g_.exprs.Hint(d);
      return elements <= most;
    });
  }

  bool LeavesGraph(const ScheduleItem& item) const {
    return std::any_of(item.nodes.begin(), item.nodes.end(), [&](NodeIndex n) {
      return outputs_.contains(g_.nodes[static_cast<std::size_t>(n)].outputs[0]);
    });
  }

  // What leaves the graph and is read by nothing else, as the counts of a model's batch norms: at the end it may be
  // written over an input (FusedExecutable::AllowOverwrites).
  bool IsOfResults(const ScheduleItem& item) const {
    return std::all_of(item.nodes.begin(), item.nodes.end(), [&](NodeIndex n) {
      const ValueId v = g_.nodes[static_cast<std::size_t>(n)].outputs[0];
      return outputs_.contains(v) && !read_.contains(v);
    });
  }

  const Graph& g_;
  const Schedule& schedule_;
  IndexedVector<ValueId, NodeIndex> definitions_;
  std::vector<std::size_t> item_of_;  // that makes a node's result
  std::set<ValueId> outputs_, read_;
  std::vector<std::pair<Alike, std::size_t>> alike_;
};

}  // namespace

void MoveSmallToFront(const Graph& graph, bool early, Schedule* schedule) {
  // What was waited for may be read by the name that it had before (waits.h): the values do not say so.
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), &ir::SpeaksToOthers)) return;
  std::vector<ScheduleItem> items;
  for (const std::size_t i : Mover(graph, *schedule).Order(early)) items.push_back(std::move(schedule->items[i]));
  schedule->items = std::move(items);
}

}  // namespace framefuse::fusion
