// ReductionWriter: the kernels of reductions that one kernel cannot do: those that are split into parts, which another
// kernel combines, and indices of extremes over columns, which are looked for once the extremes are known.
#ifndef FRAMEFUSE_BACKENDS_FUSION_REDUCTION_WRITER_H_
#define FRAMEFUSE_BACKENDS_FUSION_REDUCTION_WRITER_H_

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "backends/fusion/group_writer.h"

namespace framefuse::fusion {

class ReductionWriter : protected GroupWriter {
 protected:
  using GroupWriter::GroupWriter;

  // What of a group's reductions a kernel finds.
  enum class Pass : std::uint8_t {
    kValues,   // sums and extremes
    kIndices,  // where the extremes are that a pass before has put into temporaries
  };

  void SetExtents() {
    for (const Axis* a : outer_) k_->extents.push_back(a->extent);
    if (inner_ != nullptr) k_->inner = inner_->extent;
    if (segment_ != nullptr) k_->segments = segment_->extent;
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

  void StartColumn() {
    Start(Skeleton::kColumn);
    outer_.clear();
    for (const Axis& a : it_.outer) outer_.push_back(&a);
    outer_.push_back(&it_.reduced.front());
    inner_ = &it_.inner.front();
    k_->kernel.outer_rank = 1;
    SetExtents();
  }

  // --- rows

  bool ShouldSplitRow() const {
    if (HasScan()) return false;
    const auto is_later = [this](NodeIndex n) { return IsReduce(n) && stage_.at(node(n).outputs[0]) > 0; };
    const auto is_full = [this](GraphValue v) { return !IsRowLevel(v); };
    if (absl::c_any_of(group_.nodes, is_later) || absl::c_any_of(out_.outputs, is_full)) return false;
    return it_.reduced.size() == 1 && it_.reduced[0].extent.is_constant() &&
           ConstantProduct(it_.outer) <= splits_.most_rows && it_.reduced[0].extent.constant() >= splits_.least_row;
  }

  absl::Status SplitRow() {
    const std::int64_t total = it_.reduced[0].extent.constant(), rows = ConstantProduct(it_.outer);
    // Short rows in shorter parts, which fill the machine.
    std::int64_t chunk = splits_.chunk;
    while (chunk > splits_.least_chunk && rows * total < kWantedParts * chunk) chunk /= 2;
    const std::int64_t parts = (total + chunk - 1) / chunk;
    // A shorter last part is known to the launcher only where there is one row.
    if (rows > 1 && total % chunk != 0) return absl::UnimplementedError("uneven parts of several rows");
    Partial partial = RowParts(Reductions(Pass::kValues), Pass::kValues, chunk);
    if (const std::vector<NodeIndex> indices = Reductions(Pass::kIndices); !indices.empty()) {
      StartCombiningRows(parts);
      CombineRows(indices, partial, Pass::kValues, parts, 0);
      Begin(BlockKind::kOnce);
      for (NodeIndex n : indices) KeepExtreme(n, DenseOrOne(1), Inner::kUniform, rows);
      for (NodeIndex n : indices) partial.erase(n);
      partial.merge(RowParts(indices, Pass::kIndices, chunk));
    }
    StartCombiningRows(parts);
    std::vector<NodeIndex> values = Reductions(Pass::kValues);
    std::erase_if(values, [this](NodeIndex n) { return IsIndex(n); });
    CombineRows(values, partial, Pass::kValues, parts, 0);
    CombineRows(Reductions(Pass::kIndices), partial, Pass::kIndices, parts, chunk);
    Begin(BlockKind::kOnce);
    for (GraphValue v : out_.outputs) Store(v);
    return absl::OkStatus();
  }

  // --- columns

  absl::Status Column() {
    if (it_.inner.size() != 1) return absl::UnimplementedError("kept dimensions do not collapse");
    std::optional<ColumnSplit> split;
    if (it_.reduced.size() == 2 && HasConstantSizes()) {
      split = OfTwoAxes();
    } else if (it_.reduced.size() != 1) {
      return absl::UnimplementedError("reduced dimensions do not collapse");
    } else if (ShouldSplitColumn()) {
      split = OfOneAxis();
    }
    const std::vector<NodeIndex> indices = Reductions(Pass::kIndices);
    if (!indices.empty() && !HasConstantSizes()) return absl::UnimplementedError("extremes of unknown number");
    const auto pass = [&](const std::vector<NodeIndex>& nodes, Pass p) {
      split ? SplitColumn(*split, nodes, p) : WholeColumn(nodes, p);
    };
    pass(Reductions(Pass::kValues), Pass::kValues);
    if (!indices.empty()) pass(indices, Pass::kIndices);
    return absl::OkStatus();
  }

 private:
  using Partial = std::map<NodeIndex, int>;  // temporaries by reduction
  static constexpr std::int64_t kWantedParts = 128;

  std::int64_t ConstantProduct(const std::vector<Axis>& axes) const {
    std::int64_t n = 1;
    for (const Axis& a : axes) n *= a.extent.is_constant() ? a.extent.constant() : 1 << 30;
    return n;
  }

  std::vector<NodeIndex> Reductions(Pass pass) const {
    std::vector<NodeIndex> out;
    for (NodeIndex n : group_.nodes) {
      if (pass == Pass::kValues ? IsReduce(n) : IsIndex(n)) out.push_back(n);
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
      case Type::kF32:
      case Type::kPred:
        return kernel_ir::DType::kF32;
    }
    return kernel_ir::DType::kF32;
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
  // The same for a kernel of rows that has an outer axis in any case.
  std::vector<Dim> DenseOrOne(std::int64_t step) const {
    return it_.outer.empty() ? std::vector<Dim>{Dim(0)} : DenseOuter(it_.outer, step);
  }

  int AddTemporary(Type type, std::int64_t elements) {
    out_.temporaries.push_back({PartialStorage(type), elements});
    return static_cast<int>(out_.temporaries.size()) - 1;
  }

  static KernelBuffer InTemporary(int temporary, std::vector<Dim> outer, Inner inner) {
    KernelBuffer b;
    b.temporary = temporary;
    b.outer = std::move(outer);
    b.inner = Dim(inner == Inner::kUniform ? 0 : 1);
    return b;
  }

  void StoreTemporary(KernelValue k, int temporary, std::vector<Dim> outer, Inner inner) {
    const kernel_ir::DType dtype = out_.temporaries[static_cast<std::size_t>(temporary)].dtype;
    builder_->Store(AddBuffer(InTemporary(temporary, std::move(outer), inner), dtype, true, inner), k);
  }
  KernelValue LoadTemporary(int temporary, std::vector<Dim> outer, Inner inner) {
    const kernel_ir::DType dtype = out_.temporaries[static_cast<std::size_t>(temporary)].dtype;
    return builder_->Load(AddBuffer(InTemporary(temporary, std::move(outer), inner), dtype, false, inner));
  }

  void KeepExtreme(NodeIndex n, std::vector<Dim> outer, Inner inner, std::int64_t elements) {
    const KernelValue k = combined_.at(n);
    extremes_[n] = AddTemporary(builder_->TypeOf(k), elements);
    StoreTemporary(k, extremes_[n], std::move(outer), inner);
  }

  // In a loop. `outer`: of the extremes that are known.
  KernelValue EmitPass(NodeIndex n, Pass pass, const std::vector<Dim>& outer, Inner inner) {
    if (pass == Pass::kValues) return EmitReduce(n);
    return EmitIndex(n, LoadTemporary(extremes_.at(n), outer, inner));
  }

  // What a loop of partial results has made one of: of values, or of indices within parts of so many points.
  void Combine(NodeIndex n, Pass pass, KernelValue partial, std::int64_t points) {
    if (pass == Pass::kValues) {
      combined_[n] = builder_->Emit(FormOf(n).op, builder_->TypeOf(partial), {partial});
      return;
    }
    const auto number = [&](std::int64_t i) { return builder_->ConstInt(IndexType(), i); };
    const KernelValue before = builder_->Binary(Op::kMul, Place(), number(points));
    const KernelValue none = builder_->Compare(Op::kEq, partial, number(NoIndex()));
    const KernelValue at = builder_->Select(none, partial, builder_->Binary(Op::kAdd, before, partial));
    combined_[n] = builder_->Unary(Op::kReduceMin, at);
  }

  // The results of a pass, for who reads them in this kernel.
  void Publish(const std::vector<NodeIndex>& nodes, Pass pass) {
    for (NodeIndex n : nodes) {
      const GraphValue v = node(n).outputs[0];
      if (pass == Pass::kIndices) {
        known_.found[v] = combined_.at(n);
      } else if (!IsIndex(n)) {
        known_.in_row[v] = combined_.at(n);
      }
    }
  }

  Partial RowParts(const std::vector<NodeIndex>& nodes, Pass pass, std::int64_t chunk) {
    const std::int64_t total = it_.reduced[0].extent.constant(), rows = ConstantProduct(it_.outer);
    const std::int64_t parts = (total + chunk - 1) / chunk;
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
    std::vector<Dim> known = DenseOuter(it_.outer, 1), made = DenseOuter(it_.outer, parts);
    known.push_back(Dim(0));
    made.push_back(Dim(1));
    Begin(BlockKind::kLoop);
    std::vector<std::pair<NodeIndex, KernelValue>> results;
    for (NodeIndex n : nodes) results.emplace_back(n, EmitPass(n, pass, known, Inner::kUniform));
    Begin(BlockKind::kOnce);
    Partial partial;
    for (const auto& [n, k] : results) {
      partial[n] = AddTemporary(builder_->TypeOf(k), rows * parts);
      StoreTemporary(k, partial[n], made, Inner::kUniform);
    }
    outer_.clear();
    return partial;
  }

  void StartCombiningRows(std::int64_t parts) {
    StartRow();
    k_->inner = Dim(parts);
    Begin(BlockKind::kLoop);
  }

  void CombineRows(const std::vector<NodeIndex>& nodes, const Partial& partial, Pass pass, std::int64_t parts,
                   std::int64_t chunk) {
    for (NodeIndex n : nodes)
      Combine(n, pass, LoadTemporary(partial.at(n), DenseOrOne(parts), Inner::kContiguous), chunk);
    Publish(nodes, pass);
  }

  bool HasScan() const {
    return absl::c_any_of(group_.nodes, [this](NodeIndex n) { return ScanOf(g_, node(n)).has_value(); });
  }

  bool ShouldSplitColumn() const {
    return !HasScan() && it_.reduced[0].extent.is_constant() && it_.inner[0].extent.is_constant() &&
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

  // Of the extremes of columns, in a kernel with so many more outer axes.
  std::vector<Dim> OfColumns(std::size_t more) const {
    std::vector<Dim> outer;
    if (HasConstantSizes()) outer = DenseOuter(it_.outer, it_.inner[0].extent.constant());
    outer.resize(it_.outer.size() + more, Dim(0));
    return outer;
  }

  void WholeColumn(const std::vector<NodeIndex>& nodes, Pass pass) {
    StartColumn();
    Begin(BlockKind::kLoop);
    for (NodeIndex n : nodes) combined_[n] = EmitPass(n, pass, OfColumns(1), Inner::kContiguous);
    StoreElements(pass);
    Publish(nodes, pass);
    if (nodes.empty() && absl::c_none_of(out_.outputs, [this](GraphValue v) { return IsRowLevel(v); })) return;
    Begin(BlockKind::kLoop);
    ColumnResults(nodes, pass);
  }

  void SplitColumn(const ColumnSplit& split, const std::vector<NodeIndex>& nodes, Pass pass) {
    const auto& [part, within, total] = split;
    const std::int64_t parts = part.extent.constant(), columns = it_.inner[0].extent.constant();
    StartColumn();
    outer_.pop_back();
    outer_.push_back(&part);
    outer_.push_back(&within);
    k_->extents.clear();
    SetExtents();
    k_->split_total = total;
    std::vector<Dim> made = DenseOuter(it_.outer, parts * columns);
    made.push_back(Dim(columns));
    Begin(BlockKind::kLoop);
    std::vector<std::pair<NodeIndex, KernelValue>> results;
    for (NodeIndex n : nodes) results.emplace_back(n, EmitPass(n, pass, OfColumns(2), Inner::kContiguous));
    StoreElements(pass);
    Begin(BlockKind::kLoop);
    Partial partial;
    for (const auto& [n, k] : results) {
      partial[n] = AddTemporary(builder_->TypeOf(k), ConstantProduct(it_.outer) * parts * columns);
      std::vector<Dim> outer = made;
      outer.push_back(Dim(0));
      StoreTemporary(k, partial[n], std::move(outer), Inner::kContiguous);
    }
    StartColumn();
    k_->extents.back() = Dim(parts);
    Begin(BlockKind::kLoop);
    for (const auto& [n, t] : partial)
      Combine(n, pass, LoadTemporary(t, made, Inner::kContiguous), within.extent.constant());
    Publish(nodes, pass);
    Begin(BlockKind::kLoop);
    ColumnResults(nodes, pass);
  }

  void StoreElements(Pass pass) {
    for (GraphValue v : out_.outputs) {
      if (!IsRowLevel(v) && pass == Pass::kValues) Store(v);
    }
  }

  void ColumnResults(const std::vector<NodeIndex>& nodes, Pass pass) {
    for (GraphValue v : out_.outputs) {
      const auto made = made_by_.find(v);
      const bool index = made != made_by_.end() && IsIndex(made->second);
      if (IsRowLevel(v) && index == (pass == Pass::kIndices)) Store(v);
    }
    if (pass == Pass::kIndices) return;
    for (NodeIndex n : nodes) {
      if (!IsIndex(n)) continue;
      KeepExtreme(n, OfColumns(1), Inner::kContiguous, ConstantProduct(it_.outer) * it_.inner[0].extent.constant());
    }
  }

  Partial extremes_;                           // temporaries of whole extremes
  std::map<NodeIndex, KernelValue> combined_;  // in the kernel that is written
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_REDUCTION_WRITER_H_
