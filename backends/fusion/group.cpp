#include "backends/fusion/group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backends/fusion/gather.h"
#include "backends/fusion/node_set.h"
#include "backends/fusion/order.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/scan.h"
#include "backends/fusion/waits.h"
#include "backends/graph/operators.h"
#include "common/indexed_vector.h"

namespace framefuse::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::NodeIndex;
using ir::ValueId;

constexpr std::size_t kMostNodes = 160, kMostReductions = 5;
constexpr std::ptrdiff_t kMostBuffers = 32;

bool SameShape(const std::vector<Dim>& a, const std::vector<Dim>& b) { return a == b; }

class Grouper {
 public:
  explicit Grouper(const Graph& graph)
      : g_(graph),
        waits_(graph),
        definitions_(graph.Definitions()),
        group_of_(graph.nodes.size(), -1),
        in_company_(graph.nodes.size()) {
    users_.resize(graph.values.size());
    is_number_.assign(graph.values.size(), false);
    for (const ir::ConstantTensor& c : graph.constants) {
      is_number_[static_cast<std::size_t>(c.value)] = NumberConstant(graph, c.value).has_value();
    }
    is_output_.assign(graph.values.size(), false);
    for (const ir::Output& o : graph.outputs) {
      if (o.value != kNoValue) is_output_[static_cast<std::size_t>(o.value)] = true;
    }
    NodeIndex before = kNoNode;
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      ReductionForm form;
      const bool reduction = IsReduction(g_, g_.nodes[i], &form);
      reduction_.push_back(reduction ? std::optional<ReductionForm>(form) : std::nullopt);
      gather_.push_back(GatherOf(g_, g_.nodes[i]));
      scan_.push_back(ScanOf(g_, g_.nodes[i]));
      NodeSet& mine = ancestors_.emplace_back(g_.nodes.size());
      const auto needs = [&](NodeIndex p) {
        if (p == kNoNode) return;
        mine.Add(p);
        mine.Join(ancestors_[p]);
      };
      ir::ForEachUse(g_.nodes[i], [&](ValueId v) {
        users_[v].push_back(static_cast<NodeIndex>(i));
        needs(definitions_[v]);
      });
      for (NodeIndex wait : waits_.Before(static_cast<NodeIndex>(i))) needs(wait);
      if (!KeepsOrder(g_.nodes[i])) continue;
      needs(std::exchange(before, static_cast<NodeIndex>(i)));
    }
  }

  Schedule Run() {
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) Place(static_cast<NodeIndex>(i));
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (!groups_[k].nodes.empty()) CloneProducers(static_cast<int>(k));
    }
    MergeReductions();
    DropLone();
    return OrderGroups(g_, waits_, definitions_.items(), groups_, group_of_.items());
  }

 private:
  const Node& node(NodeIndex n) const { return g_.nodes[static_cast<std::size_t>(n)]; }
  const ir::Value& value(ValueId v) const { return g_.value(v); }
  const std::optional<ReductionForm>& ReductionOf(NodeIndex n) const { return reduction_[static_cast<std::size_t>(n)]; }
  const std::optional<GatherForm>& GatherOfNode(NodeIndex n) const { return gather_[static_cast<std::size_t>(n)]; }
  const std::optional<ScanForm>& ScanOfNode(NodeIndex n) const { return scan_[static_cast<std::size_t>(n)]; }
  // What a node reads from memory or from other nodes: numbers are in the kernel.
  template <typename F>
  void ForEachTensor(NodeIndex n, F f) const {
    ir::ForEachUse(node(n), [&](ValueId v) {
      if (!is_number_[static_cast<std::size_t>(v)]) f(v);
    });
  }

  void Place(NodeIndex n) {
    const std::optional<ReductionForm>& reduction = ReductionOf(n);
    const std::optional<ScanForm>& scan = ScanOfNode(n);
    if (!reduction && !GatherOfNode(n) && !scan && !IsPointwise(g_, node(n))) return;
    bool any_tensor = false;
    ForEachTensor(n, [&](ValueId) { any_tensor = true; });
    if (!any_tensor) return;
    Group own;
    own.nodes = {n};
    own.shape = reduction ? value(node(n).args[0].value).sizes : value(node(n).outputs[0]).sizes;
    if (reduction) {
      own.reduce_begin = reduction->begin;
      own.reduce_end = reduction->end;
      const bool last = reduction->end == own.shape.size(), beside = last && IsBesideChannels(g_, node(n), *reduction);
      own.kind = last && !beside ? GroupKind::kRow : GroupKind::kColumn;
      own.inner_begin = beside ? reduction->begin - 1 : reduction->end;
    }
    if (scan) {
      own.reduce_begin = scan->dim;
      own.reduce_end = own.inner_begin = scan->dim + 1;
      own.kind = own.reduce_end == own.shape.size() ? GroupKind::kRow : GroupKind::kColumn;
    }
    if (own.shape.size() > 8) return;
    group_of_[n] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(own));
    whole_.push_back(ancestors_[n]);
    whole_.back().Add(n);
    members_.emplace_back(g_.nodes.size()).Add(n);
    // Producers first, then groups that read the same tensors.
    std::vector<int> candidates;
    ForEachTensor(n, [&](ValueId v) {
      const NodeIndex p = definitions_[v];
      if (p != kNoNode && group_of_[p] >= 0) {
        candidates.push_back(group_of_[p]);
      }
    });
    ForEachTensor(n, [&](ValueId v) {
      int seen = 0;
      const auto& users = users_[v];
      for (auto it = users.rbegin(); it != users.rend() && seen < 8; ++it) {
        if (*it >= n) continue;
        ++seen;
        if (group_of_[*it] >= 0) candidates.push_back(group_of_[*it]);
      }
    });
    for (int c : candidates) {
      const int mine = group_of_[n];
      // Merging moves nodes: the candidate may be another group by now.
      if (c != mine && !groups_[static_cast<std::size_t>(c)].nodes.empty()) TryMerge(c, mine);
    }
  }

  // Joins group b into a if the result is a legal group.
  bool TryMerge(int a, int b) {
    const Group &x = groups_[static_cast<std::size_t>(a)], &y = groups_[static_cast<std::size_t>(b)];
    std::optional<Group> merged = Combine(x, y);
    if (!merged || !IsLegal(*merged) || HasCycle(*merged)) return false;
    for (int& home : group_of_) home = home == b ? a : home;
    for (NodeIndex n : merged->nodes) in_company_.Add(n);
    whole_[static_cast<std::size_t>(a)].Join(whole_[static_cast<std::size_t>(b)]);
    members_[static_cast<std::size_t>(a)].Join(members_[static_cast<std::size_t>(b)]);
    groups_[static_cast<std::size_t>(b)].nodes.clear();
    groups_[static_cast<std::size_t>(a)] = *std::move(merged);
    return true;
  }

  std::vector<Dim> RowShape(const Group& group) const {
    std::vector<Dim> shape = group.shape;
    for (std::size_t d = group.reduce_begin; d < group.reduce_end; ++d) shape[d] = Dim(1);
    return shape;
  }

  std::optional<Group> Combine(const Group& x, const Group& y) const {
    if (x.nodes.size() + y.nodes.size() > kMostNodes) return std::nullopt;
    if (DeviceOf(x) != DeviceOf(y)) return std::nullopt;
    Group out = x.has_reduction() ? x : y;
    const Group& other = x.has_reduction() ? y : x;
    if (other.has_reduction()) {
      if (!SameShape(out.shape, other.shape)) return std::nullopt;
      if (out.reduce_begin != other.reduce_begin || out.reduce_end != other.reduce_end) return std::nullopt;
      if (out.kind != other.kind || out.inner_begin != other.inner_begin) return std::nullopt;
    } else if (!SameShape(other.shape, out.shape)) {
      if (!out.has_reduction() || !SameShape(other.shape, RowShape(out))) return std::nullopt;
    }
    out.nodes.clear();
    std::set_union(x.nodes.begin(), x.nodes.end(), y.nodes.begin(), y.nodes.end(), std::back_inserter(out.nodes));
    return out;
  }

  c10::Device DeviceOf(const Group& group) const { return value(node(group.nodes[0]).outputs[0]).device; }

  // What lowering asks of a group: levels by shape, at most one stage in column groups, limits.
  bool IsLegal(const Group& group) const {
    const std::vector<Dim> row = RowShape(group);
    std::vector<int> stage(group.nodes.size());
    std::map<int, std::size_t> reductions;
    std::vector<ValueId> buffers;
    const bool one_stage = group.kind == GroupKind::kColumn && HasIndex(group);
    for (std::size_t i = 0; i < group.nodes.size(); ++i) {
      const NodeIndex n = group.nodes[i];
      const bool reduction = group.has_reduction() && ReductionOf(n), picks = reduction && ReductionOf(n)->picks;
      const std::vector<Dim>& shape = reduction ? value(node(n).args[0].value).sizes : value(node(n).outputs[0]).sizes;
      const bool full = SameShape(shape, group.shape);
      if (!full && (reduction || !group.has_reduction() || !SameShape(shape, row))) return false;
      bool legal = true;
      ForEachTensor(n, [&](ValueId v) {
        const NodeIndex p = definitions_[v];
        const auto made = std::lower_bound(group.nodes.begin(), group.nodes.end(), p);
        if (p == kNoNode || made == group.nodes.end() || *made != p) return buffers.push_back(v);
        const bool from_reduction = group.has_reduction() && ReductionOf(p);
        if (picks && v == node(n).args[1].value) legal = false;
        // Only a result with the dimensions kept lines up with the other values, and a target with nothing else.
        if (from_reduction && !ReductionOf(p)->keep) legal = false;
        stage[i] = std::max(stage[i], stage[static_cast<std::size_t>(made - group.nodes.begin())] +
                                          (from_reduction ? ReductionOf(p)->loops() : 0));
      });
      if (!legal || (picks && ReadsElsewhere(group, n, node(n).args[1].value))) return false;
      for (int loop = 0; reduction && loop < ReductionOf(n)->loops(); ++loop) {
        if (++reductions[stage[i] + loop] > kMostReductions) return false;
      }
      if (group.kind == GroupKind::kColumn && stage[i] > 0 && (full || reduction || one_stage)) return false;
      if (reduction && ReductionOf(n)->index && !IsSameInEachLoop(group, node(n).args[0].value)) return false;
      if (IsUsedOutside(node(n).outputs[0], group)) buffers.push_back(node(n).outputs[0]);
    }
    std::sort(buffers.begin(), buffers.end());
    if (std::unique(buffers.begin(), buffers.end()) - buffers.begin() > kMostBuffers) return false;
    return std::all_of(group.nodes.begin(), group.nodes.end(),
                       [&](NodeIndex n) { return (!GatherOfNode(n) || CanGather(group, n)) && CanScan(group, n); });
  }

  // The node is no scan, or one along what the group's loop goes over, and no single points of it are asked for.
  bool CanScan(const Group& group, NodeIndex n) const {
    const std::optional<ScanForm>& scan = ScanOfNode(n);
    if (!scan) return true;
    if (group.reduce_begin != scan->dim || group.reduce_end != scan->dim + 1) return false;
    if (!SameShape(value(node(n).outputs[0]).sizes, group.shape)) return false;
    return std::none_of(group.nodes.begin(), group.nodes.end(),
                        [&](NodeIndex other) { return ReductionOf(other) && ReductionOf(other)->picks; });
  }

  // A row of the group has one row of the table. The table and the index come from memory, and as what they are.
  bool CanGather(const Group& group, NodeIndex n) const {
    const GatherForm& form = *GatherOfNode(n);
    if (group.kind == GroupKind::kColumn || !SameShape(value(node(n).outputs[0]).sizes, group.shape)) return false;
    if (group.has_reduction() && group.reduce_begin < form.index_rank) return false;
    return std::all_of(group.nodes.begin(), group.nodes.end(), [&](NodeIndex other) {
      if (ReductionOf(other) && ReductionOf(other)->picks) return false;
      bool fits = node(other).outputs[0] != form.table && node(other).outputs[0] != form.index;
      const std::optional<GatherForm>& its = GatherOfNode(other);
      ForEachTensor(other, [&](ValueId v) {
        if (v == form.table) fits = fits && its && its->table == v && its->index_rank == form.index_rank;
        if (v == form.index) fits = fits && its && its->index == v;
      });
      return fits;
    });
  }

  // What an operator does as fast alone: it copies rows, and adds up a row's elements one after the other.
  void DropLone() {
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      std::vector<NodeIndex>& nodes = groups_[k].nodes;
      const auto as_fast = [&](NodeIndex n) {
        return GatherOfNode(n) || (ScanOfNode(n) && groups_[k].kind == GroupKind::kRow);
      };
      if (!std::all_of(nodes.begin(), nodes.end(), as_fast)) continue;
      const std::vector<NodeIndex> dropped = std::exchange(nodes, {});
      for (NodeIndex n : dropped) {
        int& home = group_of_[n];
        if (home == static_cast<int>(k)) home = GroupOfAllUsers(n);
      }
    }
  }

  // A group that has a clone of the node, if all of its users do; else -1.
  int GroupOfAllUsers(NodeIndex n) const {
    const auto v = static_cast<std::size_t>(node(n).outputs[0]);
    int found = -1;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      const auto reads = [&](NodeIndex u) { return groups_[k].Contains(u); };
      if (!std::any_of(users_[v].begin(), users_[v].end(), reads)) continue;
      if (!groups_[k].Contains(n)) return -1;
      found = static_cast<int>(k);
    }
    for (NodeIndex u : users_[v]) {
      if (group_of_[u] < 0) return -1;
    }
    return is_output_[v] ? -1 : found;
  }

  bool HasIndex(const Group& group) const {
    return std::any_of(group.nodes.begin(), group.nodes.end(),
                       [&](NodeIndex n) { return ReductionOf(n) && ReductionOf(n)->index; });
  }

  // What one loop finds as the extreme another loop looks for, among values that it may compute again. Compilers for
  // devices make one instruction of a product and a sum, and need not do so in both.
  bool IsSameInEachLoop(const Group& group, ValueId v) const {
    static constexpr ir::OpNames kExact{ir::OpName::k_ToCopy, ir::OpName::kNeg,    ir::OpName::kAbs,
                                        ir::OpName::kRelu,    ir::OpName::kClone,  ir::OpName::kWhereSelf,
                                        ir::OpName::kMaximum, ir::OpName::kMinimum};
    const NodeIndex p = definitions_[v];
    if (p == kNoNode || !group.Contains(p) || value(v).device.is_cpu() || ReductionOf(p)) return true;
    bool same = kExact.contains(node(p).op);
    ForEachTensor(p, [&](ValueId arg) { same = same && IsSameInEachLoop(group, arg); });
    return same;
  }

  // Another node of the group than `n` reads v.
  bool ReadsElsewhere(const Group& group, NodeIndex n, ValueId v) const {
    const std::vector<NodeIndex>& users = users_[v];
    return std::any_of(users.begin(), users.end(), [&](NodeIndex u) { return u != n && group.Contains(u); });
  }

  bool IsUsedOutside(ValueId v, const Group& group) const {
    if (is_output_[static_cast<std::size_t>(v)]) return true;
    const std::vector<NodeIndex>& users = users_[v];
    return !std::all_of(users.begin(), users.end(), [&](NodeIndex u) { return group.Contains(u); });
  }

  // Whether something of the group must be done before what the group reads. A group is done as a whole: what one of
  // its nodes needs, the others' results wait for, however far up it is.
  bool HasCycle(const Group& group) const {
    NodeSet inside(g_.nodes.size()), needed(g_.nodes.size());
    for (NodeIndex n : group.nodes) inside.Add(n);
    for (NodeIndex n : group.nodes) {
      ForEachTensor(n, [&](ValueId v) {
        const NodeIndex p = definitions_[v];
        if (p == kNoNode || inside.Has(p)) return;
        needed.Add(p);
        needed.Join(ancestors_[p]);
      });
    }
    NodeSet joined(g_.nodes.size());
    for (bool more = true; more && !needed.Meets(inside);) {
      more = false;
      needed.ForEachIn(in_company_, joined, [&](NodeIndex at) {
        const auto home = static_cast<std::size_t>(group_of_[at]);
        more = true;
        needed.Join(whole_[home]);
        joined.Join(members_[home]);  // `at` among them
      });
    }
    return needed.Meets(inside);
  }

  // --- clones

  std::int64_t Bytes(ValueId v) const {
    std::int64_t n = static_cast<std::int64_t>(c10::elementSize(value(v).dtype));
    for (const Dim& d : value(v).sizes) n *= g_.exprs.Hint(d);
    return n;
  }

  // The pointwise nodes of another group that make v from that group's inputs; empty if reductions take part.
  bool CollectTree(ValueId v, const Group& home, std::set<NodeIndex>* tree, std::set<ValueId>* leaves) const {
    const NodeIndex p = definitions_[v];
    if (p == kNoNode || !home.Contains(p)) {
      leaves->insert(v);
      return true;
    }
    if (ReductionOf(p) || ScanOfNode(p) || tree->size() > 8) return false;
    if (!tree->insert(p).second) return true;
    bool ok = true;
    ForEachTensor(p, [&](ValueId arg) { ok = ok && CollectTree(arg, home, tree, leaves); });
    return ok;
  }

  // No node outside the group reads v, nor does the user.
  bool IsOnlyRead(ValueId v, const Group& by, const Group& home) const {
    for (NodeIndex u : users_[v]) {
      if (!by.Contains(u) && !home.Contains(u)) return false;
    }
    return !is_output_[static_cast<std::size_t>(v)];
  }

  // Reductions of one space over the same inputs, or over what one group made, once clones have shown that they are.
  void MergeReductions() {
    std::vector<std::vector<ValueId>> read(groups_.size());  // by groups with reductions
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (groups_[k].has_reduction()) read[k] = ReadBy(groups_[k]);
    }
    for (std::size_t a = 0; a < groups_.size(); ++a) {
      for (std::size_t b = a + 1; b < groups_.size(); ++b) {
        if (!Meet(read[a], read[b]) || !TryMerge(static_cast<int>(a), static_cast<int>(b))) continue;
        read[a] = ReadBy(groups_[a]);
        read[b].clear();
      }
    }
  }

  std::vector<ValueId> ReadBy(const Group& group) const {
    std::vector<ValueId> read;
    for (NodeIndex n : group.nodes) {
      ForEachTensor(n, [&](ValueId v) {
        const NodeIndex p = definitions_[v];
        const int home = p == kNoNode ? -1 : group_of_[p];
        read.push_back(home < 0 || group.Contains(p) ? v : static_cast<ValueId>(g_.values.size()) + home);
      });
    }
    std::sort(read.begin(), read.end());
    return read;
  }

  // Both are in order.
  static bool Meet(const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    for (std::size_t i = 0, k = 0; i < x.size() && k < y.size(); x[i] < y[k] ? ++i : ++k) {
      if (x[i] == y[k]) return true;
    }
    return false;
  }

  void CloneProducers(int index) {
    Group* group = &groups_[static_cast<std::size_t>(index)];
    const std::set<NodeIndex> inside(group->nodes.begin(), group->nodes.end());
    std::set<ValueId> inputs;
    for (NodeIndex n : group->nodes) {
      ForEachTensor(n, [&](ValueId v) {
        const NodeIndex p = definitions_[v];
        if (p == kNoNode || !inside.contains(p)) inputs.insert(v);
      });
    }
    for (ValueId v : inputs) {
      const NodeIndex p = definitions_[v];
      const int home = p == kNoNode ? -1 : group_of_[p];
      if (home < 0 || home == index || !SameShape(value(v).sizes, group->shape)) continue;
      std::set<NodeIndex> tree;
      std::set<ValueId> leaves;
      if (!CollectTree(v, groups_[static_cast<std::size_t>(home)], &tree, &leaves)) continue;
      std::int64_t added = 0;
      for (ValueId leaf : leaves) {
        // Row-sized and smaller ones are in cache.
        if (!inputs.contains(leaf) && SameShape(value(leaf).sizes, group->shape)) added += Bytes(leaf);
      }
      // It need not be read here; and where nothing else reads it, not be written either.
      const bool only = IsOnlyRead(v, *group, groups_[static_cast<std::size_t>(home)]);
      if (only ? added > 2 * Bytes(v) : added >= Bytes(v)) continue;
      Group bigger = *group;
      for (NodeIndex t : tree) {
        if (!bigger.Contains(t)) bigger.nodes.push_back(t);
      }
      std::sort(bigger.nodes.begin(), bigger.nodes.end());
      if (!IsLegal(bigger)) continue;
      for (NodeIndex t : tree) whole_[static_cast<std::size_t>(index)].Join(ancestors_[t]);
      *group = std::move(bigger);
    }
  }

  const Graph& g_;
  Waits waits_;
  IndexedVector<ValueId, NodeIndex> definitions_;
  IndexedVector<NodeIndex, int> group_of_;
  IndexedVector<NodeIndex, NodeSet> ancestors_;
  IndexedVector<ValueId, std::vector<NodeIndex>> users_;
  std::vector<std::optional<ReductionForm>> reduction_;  // by node
  std::vector<std::optional<GatherForm>> gather_;        // by node
  std::vector<std::optional<ScanForm>> scan_;            // by node
  std::vector<bool> is_number_, is_output_;              // by value
  std::vector<Group> groups_;
  std::vector<NodeSet> members_, whole_;  // by group: its nodes, but clones; those, and the ancestors of all
  NodeSet in_company_;                    // nodes whose group has others
};

}  // namespace

bool Group::Contains(NodeIndex n) const { return std::binary_search(nodes.begin(), nodes.end(), n); }

Schedule MakeSchedule(const Graph& graph) { return Grouper(graph).Run(); }

}  // namespace framefuse::fusion
