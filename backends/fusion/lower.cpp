// See lower.h. A group's nodes are emitted on demand: a loop takes what its reductions and stores need, values that a
// later loop needs again are computed again if that is cheap and kept in scratch rows if not.
#include "backends/fusion/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "backends/fusion/reduction_writer.h"
#include "backends/graph/operators.h"

namespace framefuse::fusion {
namespace {

class Lowering : private ReductionWriter {
 public:
  Lowering(ir::Graph& graph, const Group& group, const std::vector<bool>& needed, const SplitRules& splits)
      : ReductionWriter(graph, group, needed, splits) {}

  absl::StatusOr<LoweredGroup> Run() {
    Analyse();
    it_ = MakeIteration(g_, group_, out_.inputs, out_.outputs);
    absl::Status status = absl::OkStatus();
    if (group_.kind == GroupKind::kPointwise) {
      status = Pointwise();
    } else if (group_.kind == GroupKind::kRow) {
      status = Row();
    } else {
      status = Column();
    }
    if (!status.ok()) return status;
    for (LoweredKernel& k : out_.kernels) {
      k.kernel.name = Describe(g_, group_);
      if (absl::Status ok = Verify(k.kernel); !ok.ok()) return ok;
    }
    return std::move(out_);
  }

 private:
  // --- pointwise

  absl::Status Pointwise() {
    std::vector<Axis>& axes = it_.inner;
    if (axes.size() > 8) return absl::UnimplementedError("more than eight dimensions");
    const bool transposed = IsTransposed();
    Start(transposed ? Skeleton::kTransposed : Skeleton::kPointwise);
    for (std::size_t a = 0; a + 1 < axes.size(); ++a) outer_.push_back(&axes[a]);
    inner_ = axes.empty() ? nullptr : &axes.back();
    k_->kernel.outer_rank = transposed ? 1 : static_cast<int>(outer_.size());
    SetExtents();
    Begin(BlockKind::kLoop);
    for (GraphValue v : out_.outputs) Store(v);
    return absl::OkStatus();
  }

  // Some operand runs along the last dimension but one, and both are long enough.
  bool IsTransposed() const {
    const std::vector<Axis>& axes = it_.inner;
    if (axes.size() < 2) return false;
    if (absl::c_any_of(group_.nodes, [this](NodeIndex n) { return GatherOf(g_, node(n)).has_value(); })) return false;
    const Axis &row = axes[axes.size() - 2], &column = axes.back();
    constexpr std::int64_t kLong = 16, kBesideShort = 64;
    const auto [shorter, longer] = std::minmax({g_.exprs.Hint(row.extent), g_.exprs.Hint(column.extent)});
    if (shorter < splits_.least_turned || longer < (shorter < kLong ? kBesideShort : kLong)) return false;
    bool any = false;
    for (std::size_t o = 0; o < it_.operands.size(); ++o) {
      const bool across = row.strides[o] == Dim(1) && InnerOf(column.strides[o]) == Inner::kStrided;
      if (across && it_.operands[o].written) return false;
      any = any || across;
    }
    return any;
  }

  // --- rows

  absl::Status Row() {
    if (it_.reduced.empty() || it_.reduced.size() > 2) {
      return absl::UnimplementedError("reduced dimensions do not collapse");
    }
    const bool picks = std::any_of(group_.nodes.begin(), group_.nodes.end(), [this](NodeIndex n) { return IsPick(n); });
    const bool counts =
        std::any_of(group_.nodes.begin(), group_.nodes.end(), [this](NodeIndex n) { return IsIndex(n); });
    if ((picks || counts) && it_.reduced.size() != 1) return absl::UnimplementedError("an index over two dimensions");
    if (!picks && ShouldSplitRow()) return SplitRow();
    StartRow();
    MarkScratch();
    for (int stage = 0; stage <= stages_; ++stage) RowStage(stage);
    return absl::OkStatus();
  }

  void RowStage(int stage) {
    std::vector<NodeIndex> row_nodes, reductions, indices, picks;
    std::vector<GraphValue> stores, row_stores;
    for (NodeIndex n : group_.nodes) {
      const GraphValue v = node(n).outputs[0];
      const bool stored = std::find(out_.outputs.begin(), out_.outputs.end(), v) != out_.outputs.end();
      if (IsReduce(n) && stage_[v] == stage) (IsPick(n) ? picks : reductions).push_back(n);
      if (IsIndex(n) && stage_[v] + 1 == stage) indices.push_back(n);
      if (stage_[v] + LoopsOf(n) != stage) continue;
      if (IsRowLevel(v)) {
        if (!IsReduce(n)) row_nodes.push_back(n);
        if (stored) row_stores.push_back(v);
      } else if (stored) {
        stores.push_back(v);
      }
    }
    if (!row_nodes.empty() || !row_stores.empty() || !picks.empty()) {
      Begin(BlockKind::kOnce);
      for (NodeIndex n : row_nodes) Emit(node(n).outputs[0]);
      for (NodeIndex n : picks) known_.in_row[node(n).outputs[0]] = EmitPick(n);
      for (GraphValue v : row_stores) Store(v);
    }
    if (stores.empty() && reductions.empty() && indices.empty()) return;
    Begin(BlockKind::kLoop);
    std::vector<std::pair<NodeIndex, KernelValue>> results, places;
    for (NodeIndex n : reductions) results.emplace_back(n, EmitReduce(n));
    for (NodeIndex n : indices) places.emplace_back(n, EmitIndex(n, extreme_.at(n)));
    for (GraphValue v : stores) Store(v);
    for (const auto& [n, k] : results) {
      if (IsIndex(n)) {
        extreme_[n] = k;
      } else {
        known_.in_row[node(n).outputs[0]] = k;
      }
    }
    for (const auto& [n, k] : places) known_.found[node(n).outputs[0]] = k;
  }

  // What loops compute: for what is stored and for sums. A pick computes its one element for itself.
  std::set<GraphValue> NeededInLoops() const {
    std::vector<GraphValue> open;
    for (NodeIndex n : group_.nodes) {
      if (IsReduce(n) && !IsPick(n)) open.push_back(node(n).args[0].value);
    }
    for (GraphValue v : out_.outputs) {
      if (!IsRowLevel(v)) open.push_back(v);
    }
    std::set<GraphValue> needed;
    while (!open.empty()) {
      const GraphValue v = open.back();
      open.pop_back();
      const auto made = made_by_.find(v);
      if (made == made_by_.end() || IsRowLevel(v) || !needed.insert(v).second) continue;
      ir::ForEachUse(node(made->second), [&](GraphValue arg) { open.push_back(arg); });
    }
    return needed;
  }

  // Values of one loop that a later loop uses, and that cost more than a reload.
  void MarkScratch() {
    const std::set<GraphValue> needed = NeededInLoops();
    std::map<GraphValue, int> cost;  // instructions from memory on
    for (NodeIndex n : group_.nodes) {
      const GraphValue v = node(n).outputs[0];
      if (IsRowLevel(v)) continue;
      int mine = kCheap.contains(node(n).op) || GatherOf(g_, node(n)) ? 1 : 8;
      ir::ForEachUse(node(n), [&](GraphValue arg) {
        mine += cost.contains(arg) ? cost[arg] : !made_by_.contains(arg) && !IsRowLevel(arg) ? 1 : 0;
      });
      cost[v] = mine;
    }
    for (NodeIndex n : group_.nodes) {
      const GraphValue user = node(n).outputs[0];
      if (IsReduce(n) ? IsPick(n) : !needed.contains(user)) continue;
      ir::ForEachUse(node(n), [&](GraphValue v) {
        if (!cost.contains(v) || cost[v] <= 3) return;
        if (stage_[user] + (IsIndex(n) ? 1 : 0) > stage_[v]) keep_.insert(v);
      });
    }
  }

  std::map<NodeIndex, KernelValue> extreme_;  // whose index is looked for

  static constexpr ir::OpNames kCheap{ir::OpName::kAddTensor, ir::OpName::kSubTensor, ir::OpName::kMulTensor,
                                      ir::OpName::kAddScalar, ir::OpName::kSubScalar, ir::OpName::kMulScalar,
                                      ir::OpName::k_ToCopy,   ir::OpName::kNeg,       ir::OpName::kClone,
                                      ir::OpName::kEqTensor,  ir::OpName::kEqScalar,  ir::OpName::kNeTensor,
                                      ir::OpName::kNeScalar,  ir::OpName::kWhereSelf, ir::OpName::kMaximum,
                                      ir::OpName::kMinimum,   ir::OpName::kRelu,      ir::OpName::kAbs};
};

}  // namespace

absl::StatusOr<LoweredGroup> Lower(ir::Graph& graph, const Group& group, const std::vector<bool>& needed,
                                   const SplitRules& splits) {
  return Lowering(graph, group, needed, splits).Run();
}

}  // namespace framefuse::fusion
