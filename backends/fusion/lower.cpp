// See lower.h. A group's nodes are emitted on demand: a loop takes what its reductions and stores need, values that a
// later loop needs again are computed again if that is cheap and kept in scratch rows if not.
#include "backends/fusion/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "backends/fusion/group_writer.h"

namespace framefuse::fusion {
namespace {

constexpr std::int64_t kWantedParts = 128;

class Lowering : private GroupWriter {
 public:
  Lowering(ir::Graph& graph, const Group& group, const std::vector<bool>& needed, const SplitRules& splits)
      : GroupWriter(graph, group, needed, splits) {}

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

  // Some operand runs along the last dimension but one, and both are long.
  bool IsTransposed() const {
    const std::vector<Axis>& axes = it_.inner;
    if (axes.size() < 2) return false;
    const Axis &row = axes[axes.size() - 2], &column = axes.back();
    if (g_.exprs.Hint(row.extent) < 16 || g_.exprs.Hint(column.extent) < 16) return false;
    bool any = false;
    for (std::size_t o = 0; o < it_.operands.size(); ++o) {
      const bool across = row.strides[o] == Dim(1) && InnerOf(column.strides[o]) == Inner::kStrided;
      if (across && it_.operands[o].written) return false;
      any = any || across;
    }
    return any;
  }

  void SetExtents() {
    for (const Axis* a : outer_) k_->extents.push_back(a->extent);
    if (inner_ != nullptr) k_->inner = inner_->extent;
    if (segment_ != nullptr) k_->segments = segment_->extent;
  }

  // --- rows

  absl::Status Row() {
    if (it_.reduced.empty() || it_.reduced.size() > 2) {
      return absl::UnimplementedError("reduced dimensions do not collapse");
    }
    const bool picks = std::any_of(group_.nodes.begin(), group_.nodes.end(), [this](NodeIndex n) { return IsPick(n); });
    if (picks && it_.reduced.size() != 1) return absl::UnimplementedError("an index over two dimensions");
    if (!picks && ShouldSplitRow()) return SplitRow();
    StartRow();
    MarkScratch();
    for (int stage = 0; stage <= stages_; ++stage) RowStage(stage);
    return absl::OkStatus();
  }

  void StartRow() {
    Start(Skeleton::kRow);
    outer_.clear();
    for (const Axis& a : it_.outer) outer_.push_back(&a);
    if (outer_.empty()) {
      one_ = Axis{Dim(1), std::vector<Dim>(it_.operands.size(), Dim(0))};
      outer_.push_back(&one_);
    }
    inner_ = &it_.reduced.back();
    segment_ = it_.reduced.size() == 2 ? &it_.reduced.front() : nullptr;
    k_->kernel.outer_rank = static_cast<int>(outer_.size());
    k_->kernel.segments = segment_ != nullptr;
    SetExtents();
  }

  void RowStage(int stage) {
    std::vector<NodeIndex> row_nodes, reductions, picks;
    std::vector<GraphValue> stores, row_stores;
    for (NodeIndex n : group_.nodes) {
      const GraphValue v = node(n).outputs[0];
      const int ready = stage_[v] + (IsReduce(n) ? 1 : 0);
      const bool stored = std::find(out_.outputs.begin(), out_.outputs.end(), v) != out_.outputs.end();
      if (IsReduce(n) && stage_[v] == stage) (IsPick(n) ? picks : reductions).push_back(n);
      if (ready != stage) continue;
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
      for (NodeIndex n : picks) row_memo_[node(n).outputs[0]] = EmitPick(n);
      for (GraphValue v : row_stores) Store(v);
    }
    if (stores.empty() && reductions.empty()) return;
    Begin(BlockKind::kLoop);
    std::vector<std::pair<GraphValue, KernelValue>> results;
    for (NodeIndex n : reductions) results.emplace_back(node(n).outputs[0], EmitReduce(n));
    for (GraphValue v : stores) Store(v);
    for (const auto& [v, k] : results) row_memo_[v] = k;
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
      int mine = kCheap.contains(node(n).op->name()) ? 1 : 8;
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
        if (stage_[user] > stage_[v]) keep_.insert(v);
      });
    }
  }

  // --- columns

  absl::Status Column() {
    if (it_.inner.size() != 1) return absl::UnimplementedError("kept dimensions do not collapse");
    if (it_.reduced.size() == 2 && HasConstantSizes()) return SplitColumn(OfTwoAxes());
    if (it_.reduced.size() != 1) return absl::UnimplementedError("reduced dimensions do not collapse");
    if (ShouldSplitColumn()) return SplitColumn(OfOneAxis());
    StartColumn();
    Begin(BlockKind::kLoop);
    ColumnBody();
    Begin(BlockKind::kLoop);
    ColumnResults();
    return absl::OkStatus();
  }

  void StartColumn() {
    Start(Skeleton::kColumn);
    outer_.clear();
    for (const Axis& a : it_.outer) outer_.push_back(&a);
    outer_.push_back(&it_.reduced.front());
    inner_ = &it_.inner.front();
    k_->kernel.outer_rank = 1;
    SetExtents();
  }

  void ColumnBody() {
    std::vector<std::pair<GraphValue, KernelValue>> results;
    for (NodeIndex n : group_.nodes) {
      if (IsReduce(n)) results.emplace_back(node(n).outputs[0], EmitReduce(n));
    }
    for (GraphValue v : out_.outputs) {
      if (!IsRowLevel(v)) Store(v);
    }
    for (const auto& [v, k] : results) row_memo_[v] = k;
  }

  void ColumnResults() {
    for (GraphValue v : out_.outputs) {
      if (IsRowLevel(v)) Store(v);
    }
  }

  // --- split reductions: partial results, then a second kernel over them

  bool OnlyReductionResults() const {
    if (stages_ != 1) return false;
    for (GraphValue v : out_.outputs) {
      if (!IsRowLevel(v)) return false;
    }
    return true;
  }

  std::int64_t ConstantProduct(const std::vector<Axis>& axes) const {
    std::int64_t n = 1;
    for (const Axis& a : axes) n *= a.extent.is_constant() ? a.extent.constant() : 1 << 30;
    return n;
  }

  bool ShouldSplitRow() const {
    return OnlyReductionResults() && it_.reduced.size() == 1 && it_.reduced[0].extent.is_constant() &&
           ConstantProduct(it_.outer) <= splits_.most_rows && it_.reduced[0].extent.constant() >= splits_.least_row;
  }

  bool ShouldSplitColumn() const {
    return it_.reduced[0].extent.is_constant() && it_.inner[0].extent.is_constant() &&
           ConstantProduct(it_.outer) * it_.inner[0].extent.constant() <= splits_.most_columns && ColumnParts() > 1;
  }

  std::int64_t ColumnParts() const {
    const std::int64_t total = it_.reduced[0].extent.constant();
    if (total < 4 * splits_.rows_apart) return 1;
    const std::int64_t columns = ConstantProduct(it_.outer) * it_.inner[0].extent.constant();
    std::int64_t parts = std::min(splits_.most_parts, total / splits_.rows_apart);
    if (splits_.wanted_columns > 0) parts = std::min(parts, splits_.wanted_columns / columns);
    return parts;
  }

  std::vector<NodeIndex> Reductions() const {
    std::vector<NodeIndex> out;
    for (NodeIndex n : group_.nodes) {
      if (IsReduce(n)) out.push_back(n);
    }
    return out;
  }

  // Storage of partial sums: the type that they are accumulated in.
  static kernel_ir::DType PartialStorage(Type type) {
    switch (type) {
      case Type::kF64:
        return kernel_ir::DType::kF64;
      case Type::kI64:
        return kernel_ir::DType::kI64;
      case Type::kI32:
        return kernel_ir::DType::kI32;
      default:
        return kernel_ir::DType::kF32;
    }
  }

  // Strides of a dense [outer..., second] temporary; the result is of the outer axes.
  std::vector<Dim> DenseOuter(const std::vector<Axis>& axes, std::int64_t step) const {
    std::vector<Dim> strides(axes.size(), Dim(0));
    for (std::size_t a = axes.size(); a-- > 0;) {
      strides[a] = Dim(step);
      step *= axes[a].extent.constant();
    }
    return strides;
  }

  int AddTemporary(Type type, std::int64_t elements) {
    out_.temporaries.push_back({PartialStorage(type), elements});
    return static_cast<int>(out_.temporaries.size()) - 1;
  }

  absl::Status SplitRow() {
    const std::int64_t total = it_.reduced[0].extent.constant(), rows = ConstantProduct(it_.outer);
    // Short rows in shorter parts, which fill the machine.
    std::int64_t chunk = splits_.chunk;
    while (chunk > splits_.least_chunk && rows * total < kWantedParts * chunk) chunk /= 2;
    const std::int64_t parts = (total + chunk - 1) / chunk;
    // A shorter last part is known to the launcher only where there is one row.
    if (rows > 1 && total % chunk != 0) return absl::UnimplementedError("uneven parts of several rows");
    StartRow();
    Axis part{Dim(parts), {}};
    for (const Dim& stride : it_.reduced[0].strides)
      part.strides.push_back(g_.exprs.Make(ir::ExprKind::kMul, stride, Dim(chunk)));
    if (it_.outer.empty()) outer_.clear();
    outer_.push_back(&part);
    k_->extents.clear();
    SetExtents();
    k_->inner = Dim(chunk);
    k_->kernel.outer_rank = static_cast<int>(outer_.size());
    if (total % chunk != 0) k_->split_total = total;
    Begin(BlockKind::kLoop);
    std::vector<std::pair<NodeIndex, KernelValue>> results;
    for (NodeIndex n : Reductions()) results.emplace_back(n, EmitReduce(n));
    Begin(BlockKind::kOnce);
    std::map<NodeIndex, int> temporary;
    for (const auto& [n, k] : results) {
      const Type type = builder_->TypeOf(k);
      temporary[n] = AddTemporary(type, rows * parts);
      KernelBuffer b;
      b.temporary = temporary[n];
      b.outer = DenseOuter(it_.outer, parts);
      b.outer.push_back(Dim(1));
      builder_->Store(AddBuffer(std::move(b), PartialStorage(type), true, Inner::kUniform), k);
    }
    outer_.clear();
    StartRow();
    k_->inner = Dim(parts);
    Begin(BlockKind::kLoop);
    for (const auto& [n, t] : temporary) {
      KernelBuffer b;
      b.temporary = t;
      b.outer = it_.outer.empty() ? std::vector<Dim>{Dim(0)} : DenseOuter(it_.outer, parts);
      b.inner = Dim(1);
      CombinePart(n, std::move(b), Inner::kContiguous);
    }
    Begin(BlockKind::kOnce);
    for (GraphValue v : out_.outputs) Store(v);
    return absl::OkStatus();
  }

  void CombinePart(NodeIndex n, KernelBuffer b, Inner inner) {
    const kernel_ir::DType dtype = out_.temporaries[static_cast<std::size_t>(b.temporary)].dtype;
    const KernelValue loaded = builder_->Load(AddBuffer(std::move(b), dtype, false, inner));
    row_memo_[node(n).outputs[0]] = builder_->Unary(ReductionOf(n), loaded);
  }

  bool HasConstantSizes() const {
    const auto constant = [](const Axis& a) { return a.extent.is_constant(); };
    return absl::c_all_of(it_.outer, constant) && absl::c_all_of(it_.reduced, constant) && constant(it_.inner[0]);
  }

  struct ColumnSplit {
    Axis part, within;
    std::int64_t total;  // rows; the last part may have fewer
  };

  ColumnSplit OfOneAxis() const {
    const std::int64_t total = it_.reduced[0].extent.constant(), parts = ColumnParts();
    const std::int64_t rows = (total + parts - 1) / parts;
    ColumnSplit split{{Dim(parts), {}}, {Dim(rows), it_.reduced[0].strides}, total};
    for (const Dim& stride : it_.reduced[0].strides)
      split.part.strides.push_back(g_.exprs.Make(ir::ExprKind::kMul, stride, Dim(rows)));
    return split;
  }

  // Operands whose rows are in different orders: a part is a step of the outer axis.
  ColumnSplit OfTwoAxes() const {
    const Axis &part = it_.reduced[0], &within = it_.reduced[1];
    return {part, within, part.extent.constant() * within.extent.constant()};
  }

  absl::Status SplitColumn(const ColumnSplit& split) {
    const auto& [part, within, total] = split;
    const std::int64_t parts = part.extent.constant(), columns = it_.inner[0].extent.constant();
    StartColumn();
    outer_.pop_back();
    outer_.push_back(&part);
    outer_.push_back(&within);
    k_->extents.clear();
    SetExtents();
    k_->split_total = total;
    Begin(BlockKind::kLoop);
    std::vector<std::pair<NodeIndex, KernelValue>> results;
    for (NodeIndex n : Reductions()) results.emplace_back(n, EmitReduce(n));
    for (GraphValue v : out_.outputs) {
      if (!IsRowLevel(v)) Store(v);
    }
    Begin(BlockKind::kLoop);
    std::map<NodeIndex, int> temporary;
    for (const auto& [n, k] : results) {
      const Type type = builder_->TypeOf(k);
      temporary[n] = AddTemporary(type, ConstantProduct(it_.outer) * parts * columns);
      KernelBuffer b;
      b.temporary = temporary[n];
      b.outer = DenseOuter(it_.outer, parts * columns);
      b.outer.push_back(Dim(columns));
      b.outer.push_back(Dim(0));
      b.inner = Dim(1);
      builder_->Store(AddBuffer(std::move(b), PartialStorage(type), true, Inner::kContiguous), k);
    }
    StartColumn();
    k_->extents.back() = Dim(parts);
    Begin(BlockKind::kLoop);
    for (const auto& [n, t] : temporary) {
      KernelBuffer b;
      b.temporary = t;
      b.outer = DenseOuter(it_.outer, parts * columns);
      b.outer.push_back(Dim(columns));
      b.inner = Dim(1);
      CombinePart(n, std::move(b), Inner::kContiguous);
    }
    Begin(BlockKind::kLoop);
    ColumnResults();
    return absl::OkStatus();
  }

  inline static const std::set<std::string> kCheap = {
      "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.add.Scalar", "aten.sub.Scalar", "aten.mul.Scalar",
      "aten._to_copy",   "aten.neg",        "aten.clone",      "aten.eq.Tensor",  "aten.eq.Scalar",  "aten.ne.Tensor",
      "aten.ne.Scalar",  "aten.where.self", "aten.maximum",    "aten.minimum",    "aten.relu",       "aten.abs"};
};

}  // namespace

absl::StatusOr<LoweredGroup> Lower(ir::Graph& graph, const Group& group, const std::vector<bool>& needed,
                                   const SplitRules& splits) {
  return Lowering(graph, group, needed, splits).Run();
}

}  // namespace framefuse::fusion
