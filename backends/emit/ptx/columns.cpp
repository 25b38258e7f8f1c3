// Column kernels: the warps of a block share the rows of a panel of 32 vectors; then one thread a column adds up what
// they have, in order, and runs the later blocks.
#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

void Printer::Columns() {
  const Operand tid = Special("tid.x", false);
  lane_ = M(Class::k32, "and.b32", {tid, "31"});
  const Operand warp = WideIndex(M(Class::k32, "shr.u32", {tid, "5"}));
  BatchPlace(f_.rank - 1);
  const Operand left = Times(panel_, std::int64_t{32} * f_.vector);
  first_ = Index("add", {Times(WideIndex(lane_), f_.vector), left});
  inner_ = IndexSize(CudaSizes::kInner);
  rows_ = IndexSize(CudaSizes::kUnits);
  if (f_.split) {
    const Operand all = Size(CudaSizes::kUnits);
    const Operand before = M(Class::k64, "mul.lo.s64", {Wide(batch_at_.back()), all});
    Operand here = M(Class::k64, "sub.s64", {Size(CudaSizes::kSplitTotal), before});
    here = M(Class::k64, "max.s64", {M(Class::k64, "min.s64", {here, all}), "0"});
    rows_ = f_.narrow ? M(Class::k32, "cvt.u32.u64", {here}) : here;
  }
  for (ValueId id : k_.blocks.front().code) {
    if (!IsReduce(id)) continue;
    const Class c = ClassOf(inst(id).type);
    accumulators_[id].clear();
    for (int k = 0; k < f_.vector; ++k) accumulators_[id].push_back(M(c, MoveName(c), {Identity(inst(id))}));
  }
  const std::string outside = t_.Label();
  t_.JumpUnless(M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {first_, inner_}), outside);
  ColumnWalk(warp);
  values_ = of_kernel_;
  t_.Place(outside);
  ColumnResults(left, f_.narrow ? warp : M(Class::k32, "cvt.u32.u64", {warp}));
}

// Where a block's batch begins; the rest of the block's number is its panel.
void Printer::BatchPlace(int dims) {
  const Operand block = SpecialIndex("ctaid.x"), batch = Divide(block, CudaSizes::kVectorsDiv);
  panel_ = Index("sub", {block, Index("mul.lo", {batch, IndexSize(CudaSizes::kVectors)})});
  batch_at_ = Coordinates(batch, dims);
  batch_ = Pointers(batch_at_);
}

void Printer::ColumnWalk(const Operand& warp) {
  const Block& block = k_.blocks.front();
  const std::vector<ValueId> elements = ElementsOf(block);
  const int warps = f_.threads / 32;
  spot_.index = first_;
  spot_.plus = 0;
  CountLanes(inner_);
  const Operand first = M(IndexClass(), MoveName(IndexClass()), {warp});
  Loop(first, rows_, Immediate(std::int64_t{warps} * f_.unroll), [&] {
    std::vector<Spot> spots;
    std::vector<Operand> there;
    std::map<std::pair<int, int>, std::vector<Operand>> loaded;
    for (int u = 0; u < f_.unroll; ++u) {
      const Operand row = u == 0 ? first : Index("add", {first, Immediate(std::int64_t{u} * warps)});
      RowAt(row);
      spots.push_back(spot_);
      std::string end;
      there.push_back(u == 0 || f_.full ? "" : M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {row, rows_}));
      if (!there.back().empty()) t_.JumpUnless(there.back(), end = t_.Label());
      for (int b : VectorReads(elements)) {
        LoadVector(b, loaded[{b, u}] = NewWords(buffer(b).dtype), f_.unroll > 1 && !StoresElements());
      }
      if (!end.empty()) t_.Place(end);
    }
    for (int u = 0; u < f_.unroll; ++u) {
      spot_ = spots[static_cast<std::size_t>(u)];
      std::string end;
      if (!there[static_cast<std::size_t>(u)].empty())
        t_.JumpUnless(there[static_cast<std::size_t>(u)], end = t_.Label());
      vectors_ = loaded;
      PointScalars(block);
      EmitBody({elements, u});
      if (!end.empty()) t_.Place(end);
    }
  });
}

// The point of this thread in a row of the batch.
void Printer::RowAt(const Operand& row) {
  std::vector<Operand> to = batch_;
  Scale({row});
  for (int b = 0; b < buffers(); ++b) {
    Operand& p = to[static_cast<std::size_t>(b)];
    const int d = f_.rank - 1, size = ElementSize(buffer(b).dtype);
    if (f_.narrow) {
      p = M(Class::k64, "mad.wide.u32", {scaled_.at({row, size}), Size32(at_.Outer(b, d)), p});
      if (IsVector(b)) p = M(Class::k64, "mad.wide.u32", {first_, Immediate(size), p});
      continue;
    }
    const Operand stride = Size(at_.Outer(b, d));
    p = Past(
        p, b,
        IsVector(b) ? M(Class::k64, "mad.lo.s64", {row, stride, first_}) : M(Class::k64, "mul.lo.s64", {row, stride}));
  }
  SetRow(to);
  spot_.reduced_row = row;
  spot_.index = first_;
  spot_.plus = 0;
  spot_.here = to;
  for (int b = 0; b < buffers(); ++b) {
    if (buffer(b).inner == Inner::kStrided) spot_.here[static_cast<std::size_t>(b)] = Here(b);
  }
}

void Printer::ColumnResults(const Operand& left, const Operand& warp) {
  const int width = 32 * f_.vector;
  const Operand tid = Special("tid.x", false);
  const Operand mine = M(Class::kPred, "setp.lt.u32", {tid, Immediate(width)});
  bool wide = false;
  for (ValueId id : k_.blocks.front().code) wide = wide || (IsReduce(id) && kernel_ir::Is64Bit(inst(id).type));
  t_.Shared(name_ + "_parts", f_.threads * f_.vector * (wide ? 8 : 4));
  for (ValueId id : k_.blocks.front().code) {
    if (IsReduce(id)) ColumnResult(id, warp, mine);
  }
  const std::string end = t_.Label();
  const Operand i = Index("add", {left, SpecialIndex("tid.x")});
  const Operand in_row = M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {i, inner_});
  t_.JumpUnless(M(Class::kPred, "and.pred", {mine, in_row}), end);
  SetRow(batch_);
  GoTo(i);
  for (std::size_t b = 1; b < k_.blocks.size(); ++b) {
    for (ValueId id : k_.blocks[b].code) ColumnEnd(id);
  }
  t_.Place(end);
}

// The warps' partial results of a reduction, added in order.
void Printer::ColumnResult(ValueId id, const Operand& warp, const Operand& mine) {
  const Type type = inst(id).type;
  const int size = kernel_ir::Is64Bit(type) ? 8 : 4, pitch = 32 * f_.vector * size;
  const Operand base = M(Class::k32, "mov.u32", {name_ + "_parts"});
  const Operand of_warp = M(Class::k32, "mad.lo.u32", {warp, Immediate(pitch), base});
  const Operand to = M(Class::k32, "mad.lo.u32", {lane_, Immediate(std::int64_t{f_.vector} * size), of_warp});
  t_.Do("bar.sync", {"0"});
  const std::vector<Operand>& lanes = accumulators_.at(id);
  const std::size_t together = std::min<std::size_t>(lanes.size(), static_cast<std::size_t>(16 / size));
  const std::string vector = together > 1 ? StrCat(".v", together) : "";
  for (std::size_t k = 0; k < lanes.size(); k += together) {
    const auto first = lanes.begin() + static_cast<std::ptrdiff_t>(k);
    t_.Do(StrCat("st.shared", vector, Suffix(type)), {Memory(to, static_cast<std::int64_t>(k) * size),
                                                      Group({first, first + static_cast<std::ptrdiff_t>(together)})});
  }
  t_.Do("bar.sync", {"0"});
  const Operand v = M(ClassOf(type), MoveName(ClassOf(type)), {Identity(inst(id))});
  const std::string outside = t_.Label();
  t_.JumpUnless(mine, outside);
  const Operand from = M(Class::k32, "mad.lo.u32", {Special("tid.x", false), Immediate(size), base});
  for (int w = 0; w < f_.threads / 32; ++w) {
    Combine(v, inst(id), v,
            M(ClassOf(type), StrCat("ld.shared", Suffix(type)), {Memory(from, std::int64_t{w} * pitch)}));
  }
  t_.Place(outside);
  values_[id] = v;
}

void Printer::ColumnEnd(ValueId id) {
  const Inst& in = inst(id);
  if (level(id) == Level::kKernel && in.op != Op::kStore) return;
  if (in.op != Op::kStore && in.op != Op::kLoad) {
    values_[id] = Right(id, 0);
    return;
  }
  const DType dtype = buffer(in.slot).dtype;
  const auto [base, offset] = ElementPlace(in.slot, 0);
  if (in.op == Op::kStore) return StoreOne(dtype, base, offset, V(in.args[0]), "");
  values_[id] = FromRaw(dtype, LoadRaw(dtype, base, offset, ""));
}

}  // namespace framefuse::emit::ptx
