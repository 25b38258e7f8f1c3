// Values, and the loop over the lanes of a vector with its loads before and its stores after it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit::ptx {

using absl::StrCat;

void Printer::Start() {
  BasePointers();
  if (!f_.exact) fast_ = t_.Make(Class::kPred, "setp.ne.s32", {Size32(CudaSizes::kFast), "0"});
  for (ValueId id = 0; id < static_cast<ValueId>(k_.insts.size()); ++id) {
    const Op op = inst(id).op;
    if (level(id) != Level::kKernel || IsReduce(id) || op == Op::kStore) continue;
    SetRow(base_);
    Scalar(id);
  }
  of_kernel_ = values_;
}

Operand Printer::V(ValueId id) {
  const auto found = values_.find(id);
  if (found != values_.end()) return found->second;
  Fail(StrCat("a value that is not there: v", id));
  return "0";
}

// How many lanes of the spot are points of the row.
void Printer::CountLanes(const Operand& limit) {
  if (f_.exact) return;
  CountLanesTo(limit, spot_.plus == 0 ? spot_.index : Index("add", {spot_.index, Immediate(spot_.plus)}));
}

void Printer::CountLanesTo(const Operand& limit, const Operand& from) {
  const Operand left = Index("min", {Index("sub", {limit, from}), Immediate(f_.vector)});
  count_ = f_.narrow ? left : M(Class::k32, "cvt.u32.u64", {left});
  lane_guards_ = {""};
  for (int k = 1; k < f_.vector; ++k) lane_guards_.push_back(M(Class::kPred, "setp.gt.s32", {count_, Immediate(k)}));
  if (f_.exact) {  // aligned
    whole_ = f_.vector == 1 ? Predicate("1") : lane_guards_.back();
  } else {
    whole_ = f_.vector == 1 ? fast_ : M(Class::kPred, "and.pred", {fast_, lane_guards_.back()});
  }
}

Operand Printer::Right(ValueId id, int k) {
  const Inst& in = inst(id);
  switch (in.op) {
    case Op::kParam: {
      if (!kernel_ir::IsFloat(in.type)) return Cast(Type::kI64, in.type, Size(at_.Param(in.slot)));
      return Cast(Type::kF64, in.type, Bitcast(Type::kI64, Type::kF64, Size(at_.Param(in.slot))));
    }
    case Op::kIota: {
      if (in.type == Type::kI32) {
        const Operand narrow = f_.narrow ? spot_.index : M(Class::k32, "cvt.u32.u64", {spot_.index});
        return spot_.plus + k == 0 ? narrow : M(Class::k32, "add.s32", {narrow, Immediate(spot_.plus + k)});
      }
      const Operand wide = Wide(spot_.index);
      return spot_.plus + k == 0 ? wide : M(Class::k64, "add.s64", {wide, Immediate(spot_.plus + k)});
    }
    case Op::kRowIota:
      if (in.type == Type::kI64) return Wide(spot_.reduced_row);
      return f_.narrow ? spot_.reduced_row : M(Class::k32, "cvt.u32.u64", {spot_.reduced_row});
    case Op::kLoadAt:
      return LoadAt(in, level(id) == Level::kElement ? LaneGuard(k) : Operand());
    case Op::kLoadFrom: {
      const auto [base, offset] = ElementPlace(in.slot, k);
      const Operand place = Past(base, in.slot, V(in.args[0]));
      const DType dtype = buffer(in.slot).dtype;
      return FromRaw(dtype, LoadRaw(dtype, place, offset, level(id) == Level::kElement ? LaneGuard(k) : Operand()));
    }
    case Op::kInRange:
      CheckInRange(V(in.args[0]), V(in.args[1]), level(id) == Level::kElement ? LaneGuard(k) : Operand());
      return V(in.args[0]);
    default: {
      const std::string_view function = ShortFunction(id);
      // Per row: where each thread has quotients of its own, few processors have units enough for doubles.
      const bool scalar = k_.skeleton == Skeleton::kRow && level(id) < Level::kElement && in.type == Type::kF32;
      if (function.empty() && scalar && (in.op == Op::kDiv || in.op == Op::kReciprocal)) return ScalarQuotient(in);
      if (function.empty()) return Operation(in);
      return Function(function, V(in.args[0]), kernel_ir::Arity(in.op) > 1 ? V(in.args[1]) : Operand());
    }
  }
}

// A value that is uniform here.
void Printer::Scalar(ValueId id) {
  const Inst& in = inst(id);
  if (in.op == Op::kStore || in.op == Op::kLoad) {
    const DType dtype = buffer(in.slot).dtype;
    const Operand& place = spot_.segment[static_cast<std::size_t>(in.slot)];
    if (in.op == Op::kStore) return StoreOne(dtype, place, 0, V(in.args[0]), "");
    values_[id] = FromRaw(dtype, LoadRaw(dtype, place, 0, ""));
  } else {
    values_[id] = Right(id, 0);
  }
}

// Lane k.
void Printer::Element(ValueId id, int k, const Body& body) {
  const Inst& in = inst(id);
  const auto lane = static_cast<std::size_t>(k);
  switch (in.op) {
    case Op::kLoad:
      values_[id] = ElementLoad(in, k, body);
      return;
    case Op::kStore: {
      if (IsVector(in.slot) && lanes_ != Lanes::kSingle) {
        Put(in.slot, V(in.args[0]));
        return;
      }
      const auto [base, offset] = ElementPlace(in.slot, k);
      return StoreOne(buffer(in.slot).dtype, base, offset, V(in.args[0]), LaneGuard(k));
    }
    case Op::kScratchLoad:
      values_[id] = KeepsScratch() ? scratch_lanes_.at({in.slot, body.copy})[lane] : V(scratch_.at(in.slot));
      return;
    case Op::kScratchStore:
      if (KeepsScratch()) scratch_lanes_[{in.slot, body.copy}].push_back(V(in.args[0]));
      return;
    default:
      break;
  }
  if (!IsReduce(id)) {
    values_[id] = Right(id, k);
    return;
  }
  const std::vector<Operand>& accumulators = accumulators_.at(id);
  const Operand& acc = accumulators[k_.skeleton == Skeleton::kColumn ? lane : 0];
  Operand value = V(in.args[0]);
  if (const Operand guard = LaneGuard(k); !guard.empty()) value = Select(in.type, guard, value, Identity(in));
  Combine(acc, in, acc, value);
}

Operand Printer::ElementLoad(const Inst& in, int k, const Body& body) {
  const DType dtype = buffer(in.slot).dtype;
  if (IsVector(in.slot) && lanes_ != Lanes::kSingle) {
    return FromWords(dtype, vectors_.at({in.slot, body.copy}), k);
  }
  if (IsTile(in.slot)) return TileElement(in.slot, k);
  const auto [base, offset] = ElementPlace(in.slot, k);
  return FromRaw(dtype, LoadRaw(dtype, base, offset, LaneGuard(k)));
}

// Loads that are not done yet, the lanes, the stores. The spot is set, and its lanes are counted.
void Printer::EmitBody(const Body& body) {
  for (int b : VectorReads(body.values)) {
    if (vectors_.contains({b, body.copy})) continue;
    const std::vector<Operand> words = NewWords(buffer(b).dtype);
    LoadVector(b, words);
    vectors_[{b, body.copy}] = words;
  }
  packed_.clear();
  rounded_.clear();
  const std::set<ValueId> done = PackedExtremes(body);
  for (ValueId id : done) {
    if (IsReduce(id)) PackedExtreme(id, body);
  }
  const auto is_rounded = [&](ValueId id) {
    return inst(id).op == Op::kWrap && inst(id).imm == static_cast<std::uint64_t>(DType::kBF16);
  };
  const bool pairs = f_.vector % 2 == 0 && std::any_of(body.values.begin(), body.values.end(), is_rounded);
  for (int k = 0; k < f_.vector; k += pairs ? 2 : 1) {
    std::map<ValueId, Operand> next = pairs ? values_ : std::map<ValueId, Operand>();  // of lane k + 1
    for (ValueId id : body.values) {
      if (done.contains(id)) continue;
      if (pairs && is_rounded(id) && !IsImmediate(V(inst(id).args[0]))) {
        const ValueId of = inst(id).args[0];
        const Operand pair = RoundedPair(V(of), next.at(of));
        values_[id] = M(Class::kF32, "shl.b32", {pair, "16"});
        next[id] = M(Class::kF32, "and.b32", {pair, "0xffff0000"});
        continue;
      }
      Element(id, k, body);
      if (!pairs) continue;
      values_.swap(next);
      Element(id, k + 1, body);
      values_.swap(next);
    }
  }
  for (ValueId id : body.values) {
    const Inst& in = inst(id);
    if (in.op != Op::kStore || !IsVector(in.slot)) continue;
    StoreVector(in.slot, packed_.at(in.slot).words);
  }
  vectors_.clear();
}

// What is rounded and what is stored of it are one word, which is made once.
Operand Printer::RoundedPair(const Operand& low, const Operand& high) {
  Operand& pair = rounded_[{low, high}];
  if (pair.empty()) pair = M(Class::k32, "cvt.rn.bf16x2.f32", {high, low});
  return pair;
}

// Extremes of halves as they are in memory, which are found two by two; and those loads that nothing else here needs.
std::set<Printer::ValueId> Printer::PackedExtremes(const Body& body) const {
  std::set<ValueId> done, needed;
  if (!Whole() || lanes_ == Lanes::kSingle || k_.skeleton != Skeleton::kRow || f_.vector < 4) return {};
  for (ValueId id : body.values) {
    const Inst& in = inst(id);
    if (in.op == Op::kReduceMax || in.op == Op::kReduceMin || in.op == Op::kReduceMaxRaw) {
      const Inst& from = inst(in.args[0]);
      const DType dtype = from.op == Op::kLoad && IsVector(from.slot) ? buffer(from.slot).dtype : DType::kF64;
      if (dtype == DType::kBF16 || dtype == DType::kF16) {
        done.insert(id);
        continue;
      }
    }
    for (int i = 0; i < kernel_ir::Arity(in.op); ++i) needed.insert(in.args[static_cast<std::size_t>(i)]);
  }
  for (ValueId id : std::set<ValueId>(done)) {
    const ValueId load = inst(id).args[0];
    if (!needed.contains(load)) done.insert(load);
  }
  return done;
}

void Printer::PackedExtreme(ValueId id, const Body& body) {
  const Inst& in = inst(id);
  const int b = inst(in.args[0]).slot;
  const DType dtype = buffer(b).dtype;
  const std::vector<Operand>& words = vectors_.at({b, body.copy});
  const std::string name = StrCat(in.op == Op::kReduceMin ? "min" : "max", in.op == Op::kReduceMaxRaw ? "" : ".NaN",
                                  dtype == DType::kBF16 ? ".bf16x2" : ".f16x2");
  Operand& pair = pairs_[id];
  for (const Operand& word : words) pair = pair.empty() ? word : M(Class::k32, name, {pair, word});
  if (!f_.full) UnpackExtremes();
}

// What all of them are, where nothing is jumped over, at the end of the loop.
void Printer::UnpackExtremes() {
  for (const auto& [id, pair] : pairs_) {
    const Inst& in = inst(id);
    const Operand& acc = accumulators_.at(id)[0];
    const DType dtype = buffer(inst(in.args[0]).slot).dtype;
    for (int k = 0; k < 2; ++k) Combine(acc, in, acc, FromWords(dtype, {pair}, k));
  }
  pairs_.clear();
}

// One point after the other.
void Printer::EmitSingles(const Body& body) {
  lanes_ = Lanes::kSingle;
  const Operand at = t_.New(IndexClass());
  t_.To(at, StrCat("add", IndexSuffix()), {spot_.index, Immediate(spot_.plus)});
  const Operand count = f_.narrow ? count_ : M(Class::k64, "cvt.u64.u32", {count_});
  const Spot before = spot_;
  SetRow(RowOfPoint());
  Loop(at, Index("add", {at, count}), "1", [&] {
    GoTo(at);
    for (ValueId id : body.values) Element(id, 0, body);
  });
  spot_ = before;
  lanes_ = Lanes::kGuarded;
}

void Printer::Loop(const Operand& at, const Operand& limit, const Operand& step, const std::function<void()>& body) {
  const bool narrow = at[2] != 'd';
  const std::string type = narrow ? ".u32" : ".s64", again = t_.Label(), end = t_.Label();
  t_.JumpIf(M(Class::kPred, "setp.ge" + type, {at, limit}), end);
  t_.Place(again);
  body();
  t_.To(at, "add" + type, {at, step});
  t_.JumpIf(M(Class::kPred, "setp.lt" + type, {at, limit}), again);
  t_.Place(end);
}

void Printer::GridLoop(const Operand& at, const Operand& limit, int step, const std::function<void()>& body) {
  // A plain form may run on the grid of the one that it stands for, whose blocks do more.
  const bool each_has_its_block = f_.narrow && (f_.exact || k_.skeleton == Skeleton::kRow);
  const int together = k_.skeleton == Skeleton::kRow ? f_.threads / f_.row_threads : f_.full ? 1 : f_.threads;
  if (each_has_its_block && together == 1) return body();
  if (!each_has_its_block) return Loop(at, limit, Times(SpecialIndex("nctaid.x"), step), body);
  const std::string end = t_.Label();
  t_.JumpIf(M(Class::kPred, "setp.ge.u32", {at, limit}), end);
  body();
  t_.Place(end);
}

}  // namespace framefuse::emit::ptx
