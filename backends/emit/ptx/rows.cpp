// Row kernels: `row_threads` threads share a row, which stays in their registers where it fits (chunks), and is walked
// once a loop where not.
#include <bit>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;
using kernel_ir::ElementSize;

void Printer::Rows() {
  const int together = f_.threads / f_.row_threads;
  const Operand tid = Special("tid.x", false), rows = IndexSize(CudaSizes::kUnits);
  lane_ = together == 1 ? tid : M(Class::k32, "and.b32", {tid, Immediate(f_.row_threads - 1)});
  Operand row = Special("ctaid.x", false);
  if (!f_.narrow) row = M(Class::k32, "mov.b32", {row});
  if (together > 1) {
    const Operand of_block =
        M(Class::k32, "shr.u32", {tid, Immediate(std::countr_zero(static_cast<unsigned>(f_.row_threads)))});
    row = M(Class::k32, "mad.lo.u32", {row, Immediate(together), of_block});
  }
  if (!f_.narrow) row = M(Class::k64, "cvt.u64.u32", {row});
  GridLoop(row, rows, together, [&] {
    values_ = of_kernel_;
    OneRow(row, rows);
  });
  if (!parts_.empty()) t_.Shared(name_ + "_parts", static_cast<int>(parts_.size()) * f_.row_threads / 32 * 8);
}

void Printer::OneRow(const Operand& row, const Operand& rows) {
  SetRow(Pointers(Coordinates(row, f_.rank)));
  segments_.clear();
  inner_ = IndexSize(CudaSizes::kInner);
  if (f_.split) {  // the last part is what is left
    const Operand next = Index("add", {row, "1"}), before = Index("mul.lo", {row, inner_});
    const Operand left = Index("sub", {IndexSize(CudaSizes::kSplitTotal), before});
    const Operand more = M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {next, rows});
    inner_ = M(IndexClass(), StrCat("selp", IndexSuffix()), {inner_, left, more});
  }
  first_ = Times(WideIndex(lane_), f_.vector);
  if (f_.chunks > 0) HoldChunks();
  EarlyScalars();
  for (const Block& block : k_.blocks) block.kind == BlockKind::kLoop ? RowLoop(block) : RowScalars(block);
  if (f_.row_threads > 32 && !f_.narrow) t_.Do("bar.sync", {"0"});  // before the next row
  early_.clear();
  held_.clear();
}

void Printer::HoldChunks() {
  const std::set<int> held = HeldBuffers();
  for (int c = 0; c < f_.chunks; ++c) {
    for (int b : held) held_[{b, c}] = NewWords(buffer(b).dtype);
  }
  EachChunk([&](int c) {
    for (int b : held) LoadVector(b, held_.at({b, c}), !StoresElements());
  });
}

// The chunks of this thread, unrolled. The spot is set, and its lanes are counted.
void Printer::EachChunk(const std::function<void(int)>& body) {
  const int each = f_.chunks / f_.segments;
  for (int c = 0; c < f_.chunks; ++c) {
    if (c % each == 0) {
      if (k_.segments) SetSegment(Immediate(c / each));
      GoTo(first_);
    }
    spot_.plus = static_cast<std::int64_t>(c % each) * f_.row_threads * f_.vector;
    std::string end;
    if (!f_.full) {
      const Operand at = spot_.plus == 0 ? first_ : Index("add", {first_, Immediate(spot_.plus)});
      t_.JumpUnless(M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {at, inner_}), end = t_.Label());
    }
    CountLanes(inner_);
    body(c);
    if (!end.empty()) t_.Place(end);
  }
}

// Pointers of the buffers that change with the segment.
void Printer::SetSegment(const Operand& s) {
  spot_.segment = spot_.row;
  if (s == "0") return;
  for (int b = 0; b < buffers(); ++b) {
    if (!buffer(b).segmented) continue;
    Operand& place = spot_.segment[static_cast<std::size_t>(b)];
    Operand known, &found = IsImmediate(s) ? segments_[{b, s}] : known;
    if (found.empty()) found = SegmentPlace(b, s);
    place = found;
  }
}

Operand Printer::SegmentPlace(int b, const Operand& s) {
  const Operand& place = spot_.row[static_cast<std::size_t>(b)];
  if (f_.narrow && s == "1")
    return M(Class::k64, "mad.wide.u32", {Size32(at_.Segment(b)), Immediate(ElementSize(buffer(b).dtype)), place});
  const Operand stride = Size(at_.Segment(b));
  return Past(place, b, s == "1" ? stride : M(Class::k64, "mul.lo.s64", {stride, s}));
}

// What does not wait for a reduction is asked of memory beside the row itself.
void Printer::EarlyScalars() {
  for (ValueId id = 0; id < static_cast<ValueId>(k_.insts.size()); ++id) {
    if (level(id) != Level::kSegment || inst(id).op != Op::kLoad || f_.chunks == 0) continue;
    segment_values_[id].clear();
    for (int s = 0; s < f_.segments; ++s) {
      SetSegment(Immediate(s));
      Scalar(id);
      segment_values_[id].push_back(V(id));
    }
  }
  SetSegment("0");
  for (ValueId id : EarlyValues()) {
    Scalar(id);
    early_.insert(id);
  }
}

// Values of the row in a block; one thread writes.
void Printer::RowScalars(const Block& block) {
  for (ValueId id : block.code) {
    if (early_.contains(id) || level(id) > Level::kRow || IsReduce(id)) continue;
    if (level(id) == Level::kKernel && inst(id).op != Op::kStore) continue;
    ScalarOfRow(id);
  }
}

void Printer::ScalarOfRow(ValueId id) {
  if (inst(id).op != Op::kStore) return Scalar(id);
  const std::string end = t_.Label();
  t_.JumpIf(M(Class::kPred, "setp.ne.u32", {lane_, "0"}), end);
  Scalar(id);
  t_.Place(end);
}

void Printer::RowLoop(const Block& block) {
  SetSegment("0");
  RowScalars(block);
  const std::vector<ValueId> elements = ElementsOf(block);
  if (elements.empty()) return;
  for (ValueId id : block.code) {
    if (IsReduce(id))
      accumulators_[id] = {M(ClassOf(inst(id).type), MoveName(ClassOf(inst(id).type)), {Identity(inst(id))})};
  }
  const std::map<ValueId, Operand> of_row = values_;
  if (const int rounds = Rounds(elements); rounds > 1) {
    ChunksInRounds(block, elements, rounds);
  } else if (f_.chunks > 0) {
    EachChunk([&](int c) {
      if (k_.segments) SegmentScalars(block, c / (f_.chunks / f_.segments));
      vectors_ = held_;
      EmitBody({elements, c});
    });
  } else if (k_.segments) {
    const Operand s = M(Class::k64, "mov.b64", {"0"});
    Loop(s, Size(CudaSizes::kSegments), "1", [&] {
      SetSegment(s);
      SegmentScalars(block, -1);
      RowWalk(elements);
    });
  } else {
    RowWalk(elements);
  }
  UnpackExtremes();
  values_ = of_row;  // what is computed again in each loop
  for (ValueId id : block.code) {
    if (IsReduce(id)) values_[id] = f_.row_threads == 32 ? ReduceWarp(id, accumulators_[id][0], 16) : ReduceBlock(id);
  }
}

void Printer::RowWalk(const std::vector<ValueId>& elements) {
  const std::int64_t step = std::int64_t{f_.row_threads} * f_.vector;
  const Operand at = M(IndexClass(), MoveName(IndexClass()), {first_});
  Loop(at, inner_, Immediate(step * f_.unroll), [&] {
    if (f_.unroll == 1) {
      GoTo(at);
      CountLanes(inner_);
      return EmitBody({elements});
    }
    // Loads of some vectors, then what is done with them.
    std::map<std::pair<int, int>, std::vector<Operand>> loaded;
    for (int b : VectorReads(elements)) {
      for (int u = 0; u < f_.unroll; ++u) loaded[{b, u}] = NewWords(buffer(b).dtype);
    }
    const auto each = [&](const std::function<void(int)>& body) {
      for (int u = 0; u < f_.unroll; ++u) {
        GoTo(at);
        spot_.plus = u * step;
        const Operand here = u == 0 ? at : Index("add", {at, Immediate(spot_.plus)});
        const std::string end = t_.Label();
        t_.JumpUnless(M(Class::kPred, StrCat("setp.lt", IndexSuffix()), {here, inner_}), end);
        CountLanes(inner_);
        body(u);
        t_.Place(end);
      }
    };
    each([&](int u) {
      for (int b : VectorReads(elements)) LoadVector(b, loaded.at({b, u}));
    });
    each([&](int u) {
      vectors_ = loaded;
      EmitBody({elements, u});
    });
  });
}

// `segment`: the number of it, or less than 0: known at run time.
void Printer::SegmentScalars(const Block& block, int segment) {
  for (ValueId id : SegmentValuesOf(block)) {
    if (segment >= 0 && inst(id).op == Op::kLoad) {
      values_[id] = segment_values_.at(id)[static_cast<std::size_t>(segment)];
    } else {
      ScalarOfRow(id);
    }
  }
}

// --- reductions

Operand Printer::Shuffled(Type type, const Operand& v, int distance) {
  const auto shuffle = [&](const Operand& word) {
    return M(Class::k32, "shfl.sync.bfly.b32", {word, Immediate(distance), "31", "0xffffffff"});
  };
  if (!kernel_ir::Is64Bit(type)) {
    const Operand word = type == Type::kF32 ? Bitcast(Type::kF32, Type::kI32, v) : v;
    return Bitcast(Type::kI32, type, shuffle(word));
  }
  const Operand low = t_.New(Class::k32), high = t_.New(Class::k32);
  t_.Do("mov.b64", {Group({low, high}), v});
  return M(ClassOf(type), "mov.b64", {Group({shuffle(low), shuffle(high)})});
}

// All threads get the result; the order of operations is fixed by the shape.
Operand Printer::ReduceWarp(ValueId id, Operand v, int from) {
  for (int d = from; d > 0; d /= 2) {
    const Operand next = t_.New(ClassOf(inst(id).type));
    Combine(next, inst(id), v, Shuffled(inst(id).type, v, d));
    v = next;
  }
  return v;
}

Operand Printer::ReduceBlock(ValueId id) {
  const Type type = inst(id).type;
  const int warps = f_.row_threads / 32, size = kernel_ir::Is64Bit(type) ? 8 : 4;
  const auto [offset, added] = parts_.try_emplace(id, static_cast<int>(parts_.size()) * warps * 8);
  const std::string memory = StrCat(".shared", Suffix(type));
  const Operand v = ReduceWarp(id, accumulators_[id][0], 16), tid = Special("tid.x", false);
  Operand& mine = part_[size];  // of this warp
  if (leads_.empty()) {
    all_parts_ = t_.First(Class::k32, "mov.u32", {name_ + "_parts"});
    leads_ = t_.First(Class::kPred, "setp.eq.s32", {t_.First(Class::k32, "and.b32", {tid, "31"}), "0"});
  }
  if (mine.empty()) {
    const Operand warp = t_.First(Class::k32, "shr.u32", {tid, "5"});
    mine = t_.First(Class::k32, "mad.lo.u32", {warp, Immediate(size), all_parts_});
  }
  t_.Do(StrCat("@", leads_, " st", memory), {Memory(mine, offset->second), v});
  t_.Do("bar.sync", {"0"});
  if (warps <= kFewWarps && size == 4) return ReduceParts(id, offset->second);
  const Operand other = M(Class::k32, "and.b32", {tid, Immediate(warps - 1)});
  const Operand theirs = M(Class::k32, "mad.lo.u32", {other, Immediate(size), all_parts_});
  return ReduceWarp(id, M(ClassOf(type), StrCat("ld", memory), {Memory(theirs, offset->second)}), warps / 2);
}

// In the order of ReduceWarp, by one thread.
Operand Printer::ReduceParts(ValueId id, int offset) {
  const Type type = inst(id).type;
  const int warps = f_.row_threads / 32, together = std::min(warps, 4);
  std::vector<Operand> all;
  for (int w = 0; w < warps; w += together) {
    std::vector<Operand> some(static_cast<std::size_t>(together));
    for (Operand& part : some) part = t_.New(ClassOf(type));
    const std::string name = StrCat("ld.shared.v", together, Suffix(type));
    t_.Do(name, {Group(some), Memory(all_parts_, offset + w * 4)});
    all.insert(all.end(), some.begin(), some.end());
  }
  for (std::size_t half = all.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) Combine(all[i], inst(id), all[i], all[i + half]);
  }
  return all[0];
}

}  // namespace framefuse::emit::ptx
