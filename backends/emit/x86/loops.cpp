// Blocks of a row: prefix, segments, vector loops of interleaved copies, tails, reductions. See emitter.h.
#include <algorithm>
#include <map>
#include <set>

#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {

using kernel_ir::Arity;
using kernel_ir::BlockKind;
using kernel_ir::ClassOf;
using kernel_ir::kNoValue;
using kernel_ir::OpClass;
using kernel_ir::SizesLayout;
using kernel_ir::Skeleton;

namespace {
constexpr int kMostLive = 60, kMostCode = 640;  // of the copies of a body: values at once, instructions
}

// Puts each instruction in the sequence of its level and finds the values that cross sequences.
void Emitter::Partition() {
  const bool column = kernel_.skeleton == Skeleton::kColumn;
  int next = 0;
  for (const kernel_ir::Block& block : kernel_.blocks) {
    Block& out = blocks_.emplace_back(Block{block.kind, {}, {}, {}, {}, {}, 1, {}});
    for (ValueId id : block.code) {
      const Level level = levels_[index(id)];
      int part = 2;
      if (block.kind == BlockKind::kOnce && !column) {
        part = 0;
      } else if (level == Level::kKernel || (level == Level::kRow && !column)) {
        part = 0;
      } else if ((level == Level::kSegment && !column) || IsTurned(id)) {
        part = 1;
      }
      if (ClassOf(kernel_[id].op) == OpClass::kReduce) {
        part = 2;
        out.reductions.push_back(id);
      }
      if (ClassOf(kernel_[id].op) == OpClass::kScan) out.scans.push_back(id);
      sequence_of_[index(id)] = next + part;
      if (!IsConst(id)) (part == 0 ? out.prefix : part == 1 ? out.segment : out.body).push_back(id);
    }
    next += 3;
  }
  for (const Block& block : blocks_) {
    for (const Sequence* sequence : {&block.prefix, &block.segment, &block.body}) {
      for (ValueId id : *sequence) {
        for (int a = 0; a < Arity(kernel_[id].op); ++a) {
          const ValueId arg = kernel_[id].args[static_cast<std::size_t>(a)];
          if (sequence_of_[index(arg)] != sequence_of_[index(id)]) crosses_[index(arg)] = true;
        }
      }
    }
  }
  if (column) return;
  for (Block& block : blocks_) Interleave(&block);
}

Emitter::ValueId Emitter::CopyOf(ValueId id, int copy, const std::vector<ValueId>& copies) {
  Inst inst = kernel_[id];
  for (ValueId& arg : inst.args) {
    if (arg != kNoValue && copies[index(arg)] != kNoValue) arg = copies[index(arg)];
  }
  const auto made = static_cast<ValueId>(kernel_.insts.size());
  copies_.push_back({id, copy});
  kernel_.insts.push_back(inst);
  levels_.push_back(levels_[index(id)]);
  sequence_of_.push_back(sequence_of_[index(id)]);
  crosses_.push_back(false);
  home_.push_back(-1);
  home_valid_.push_back(false);
  uses_.emplace_back();
  reg_of_.push_back(-1);
  return made;
}

void Emitter::Interleave(Block* block) {
  ChooseRegisters(block->body);
  block->copies = ChooseCopies(*block);
  if (block->copies == 1) return;
  const std::vector<ValueId> none(kernel_.insts.size(), kNoValue);
  std::vector<std::vector<ValueId>> copies(static_cast<std::size_t>(block->copies), none);
  for (const Sequence* sequence : {&block->prefix, &block->segment}) {
    for (ValueId id : *sequence) {
      for (int copy = 1; copy < block->copies && IsPerRow(id); ++copy) {
        const ValueId made = copies[static_cast<std::size_t>(copy)][index(id)] = CopyOf(id, copy, none);
        home_valid_[index(made)] = true;
      }
    }
  }
  for (ValueId id : block->body) {
    block->interleaved.push_back(id);
    for (int copy = 1; copy < block->copies; ++copy) {
      auto& own = copies[static_cast<std::size_t>(copy)];
      block->interleaved.push_back(own[index(id)] = CopyOf(id, copy, own));
    }
  }
}

void Emitter::EmitLoop(const Block& block) {
  pointer_.clear();
  use_current_ = false;
  RunSequence(block.prefix, {});
  if (block.body.empty() && block.segment.empty()) return;
  ChooseRegisters(block.body);
  StartAccumulators(block);
  if (!kernel_.segments) {
    AssignPointers(block);
    EmitVectorLoop(block);
  } else {
    Xbyak::Label top, done;
    for (int p = 0; p < pointers_; ++p) {
      mov(rax, Stack(row_slot_ + p * 8));
      mov(Stack(current_slot_ + p * 8), rax);
    }
    mov(rax, Size(SizesLayout::kSegments, rax));
    mov(Stack(frame::kSegment), rax);
    test(rax, rax);
    jle(done);
    L(top);
    pointer_.clear();
    use_current_ = true;
    RunSequence(block.segment, {});
    AssignPointers(block);
    EmitVectorLoop(block);
    AdvanceSegment(block);
    sub(Stack(frame::kSegment), 1);
    jg(top);
    L(done);
    use_current_ = false;
  }
  pointer_.clear();
  FinishAccumulators(block);
}

void Emitter::AssignPointers(const Block& block) {
  const bool calls = NeedsCall(block.body) || NeedsCall(block.segment);
  std::vector<Xbyak::Reg64> free = {r12, r13, r14};
  if (!calls) free.insert(free.end(), {r8, r9, r10, r11, rdi, rsi});
  std::map<int, int> uses;
  for (ValueId id : block.body) {
    const Inst& inst = kernel_[id];
    if (ClassOf(inst.op) != OpClass::kMemory) continue;
    const bool scratch = inst.op == Op::kScratchLoad || inst.op == Op::kScratchStore;
    ++uses[scratch ? static_cast<int>(kernel_.buffers.size()) + inst.slot : inst.slot];
  }
  pointer_.clear();
  for (const auto& [buffer, count] : uses) {
    if (pointer_.size() == free.size()) break;
    const Xbyak::Reg64 reg = free[pointer_.size()];
    mov(reg, Stack((use_current_ ? current_slot_ : row_slot_) + buffer * 8));
    pointer_.emplace(buffer, reg);
  }
}

void Emitter::AdvanceSegment(const Block& block) {
  std::set<int> buffers, scratch_rows;
  for (const Sequence* sequence : {&block.segment, &block.body}) {
    for (ValueId id : *sequence) {
      const Inst& inst = kernel_[id];
      if (inst.op == Op::kLoad || inst.op == Op::kLoadAt || inst.op == Op::kLoadFrom || inst.op == Op::kStore)
        buffers.insert(inst.slot);
      if (inst.op == Op::kScratchLoad || inst.op == Op::kScratchStore) {
        const int at = current_slot_ + (static_cast<int>(kernel_.buffers.size()) + inst.slot) * 8;
        if (!scratch_rows.insert(inst.slot).second) continue;
        lea(rax, ptr[r15 * (kernel_ir::Is64Bit(inst.type) ? 8 : 4)]);
        add(Stack(at), rax);
      }
    }
  }
  mov(rcx, Stack(frame::kSizes));
  for (int b : buffers) {
    if (!kernel_.buffers[static_cast<std::size_t>(b)].segmented) continue;
    mov(rax, qword[rcx + layout_.SegmentStride(b) * 8]);
    add(Stack(current_slot_ + b * 8), rax);
  }
}

void Emitter::EmitVectorLoop(const Block& block) {
  FixRegisters(block);
  xor_(ebx, ebx);
  if (block.copies > 1) CountedLoop(lanes_ * block.copies, [&] { RunSequence(block.interleaved, {}); });
  CountedLoop(lanes_, [&] { RunSequence(block.body, {}); });
  EmitTail([&] { RunSequence(block.body, {0, 0, true}); });
  ReleaseFixed();
}

void Emitter::CountedLoop(int step, const std::function<void()>& body) {
  Xbyak::Label top, done;
  lea(rax, ptr[r15 - step]);
  mov(Stack(frame::kLimit), rax);
  cmp(rbx, rax);
  jg(done);
  align(16);
  L(top);
  body();
  add(rbx, step);
  cmp(rbx, Stack(frame::kLimit));
  jle(top);
  L(done);
}

void Emitter::EmitTail(const std::function<void()>& body) {
  Xbyak::Label done;
  mov(rax, r15);
  sub(rax, rbx);
  jle(done);
  mov(Stack(frame::kRemaining), rax);
  LoadTailMasks();
  body();
  L(done);
}

// rax: number of points left.
void Emitter::LoadTailMasks() {
  if (evex_) {
    mov(rcx, rax);
    mov(eax, 1);
    shl(eax, cl);
    sub(eax, 1);
    mov(Stack(frame::kMask32, 32), eax);
    return;
  }
  neg(rax);
  lea(rcx, ptr[rip + mask32_]);
  vmovups(Xbyak::Ymm(kScratch0), ptr[rcx + rax * 4 + 32]);
  vmovups(Stack(frame::kMask32, 256), Xbyak::Ymm(kScratch0));
  if (!wide_) return;
  lea(rcx, ptr[rip + mask64_]);
  vmovups(Xbyak::Ymm(kScratch0), ptr[rcx + rax * 8 + 32]);
  vmovups(Stack(frame::kMask64, 256), Xbyak::Ymm(kScratch0));
}

// Calls in between may have used the register.
const Xbyak::Opmask& Emitter::TailMask() {
  kmovw(k1, Stack(frame::kMask32, 32));
  return k1;
}

int Emitter::MaxPressure(const Sequence& sequence) const {
  constexpr int kElsewhere = -2, kUnused = -1;
  std::vector<int> last(kernel_.insts.size(), kElsewhere);  // use, of the values that are made here
  for (ValueId id : sequence) last[index(id)] = kUnused;
  const auto for_each_local = [&](ValueId id, const auto& f) {
    for (int a = 0; a < Arity(kernel_[id].op); ++a) {
      int& use = last[index(kernel_[id].args[static_cast<std::size_t>(a)])];
      if (use != kElsewhere) f(use);
    }
  };
  const auto size = static_cast<int>(sequence.size());
  for (int i = 0; i < size; ++i) for_each_local(sequence[static_cast<std::size_t>(i)], [&](int& use) { use = i; });
  int live = 0, most = 0;
  for (int i = 0; i < size; ++i) {
    const ValueId id = sequence[static_cast<std::size_t>(i)];
    live += last[index(id)] >= 0;
    most = std::max(most, live);
    for_each_local(id, [&](int& use) {
      if (use == i) --live, use = kUnused;
    });
  }
  return most;
}

// How many copies of the body a loop has. They spill more than one would, and are quicker all the same. A call saves
// one accumulator of each reduction.
int Emitter::ChooseCopies(const Block& block) const {
  if (block.kind == BlockKind::kOnce || block.body.empty() || NeedsCall(block.body)) return 1;
  if (!block.scans.empty()) return 1;
  if (!block.reductions.empty() && NeedsCall(block.segment)) return 1;
  const auto size = static_cast<int>(block.body.size()), reductions = static_cast<int>(block.reductions.size());
  const int live = MaxPressure(block.body) + 1, accumulators = std::min(ForValues() - std::max(4, live), 8);
  for (int copies : {4, 2}) {
    if (reductions > 0 && copies * reductions > accumulators) continue;
    if (copies * live <= kMostLive && copies * size <= kMostCode) return copies;
  }
  return 1;
}

int Emitter::TakeFixed() {
  for (int r = kRegisters - 1; r >= 0; --r) {
    if (!IsForValues(r) || fixed_[static_cast<std::size_t>(r)]) continue;
    fixed_[static_cast<std::size_t>(r)] = true;
    return r;
  }
  throw Xbyak::Error(Xbyak::ERR_INTERNAL);
}

// Constants and uniform values that the loop uses most stay in registers.
void Emitter::FixRegisters(const Block& block) {
  ChooseRegisters(block.body);
  std::map<ValueId, int> weight;
  for (ValueId id : block.body) {
    const Inst& inst = kernel_[id];
    for (int a = 0; a < Arity(inst.op); ++a) {
      const ValueId v = inst.args[static_cast<std::size_t>(a)];
      const bool outside = sequence_of_[index(v)] != sequence_of_[index(id)] && Uniform(v);
      // Where an operand must be a register, memory costs an instruction.
      if (IsConst(v) || (outside && !IsPerRow(v))) weight[v] += a == 0 || (inst.op == Op::kSelect && a == 2) ? 2 : 1;
    }
  }
  std::vector<std::pair<int, ValueId>> order;
  for (const auto& [v, w] : weight) order.emplace_back(-w, v);
  std::sort(order.begin(), order.end());
  const Sequence& body = block.interleaved.empty() ? block.body : block.interleaved;
  const int least = kernel_.skeleton != Skeleton::kTransposed ? 4 : many_ ? 16 : 8;
  int count = ForValues() - static_cast<int>(accumulator_.size()) - std::max(least, MaxPressure(body) + 2);
  for (const auto& [w, v] : order) {
    if (count-- <= 0) break;
    fixed_reg_[v] = TakeFixed();
  }
  for (const auto& [v, reg] : fixed_reg_) {
    Move(Vector(reg, kernel_[v].type), IsConst(v) ? ConstAddress(kernel_[v]) : Home(v));
  }
}

void Emitter::ReleaseFixed() {
  BeginSequence({});
  for (const auto& [v, reg] : fixed_reg_) {
    fixed_[static_cast<std::size_t>(reg)] = false;
    reg_of_[index(v)] = -1;
  }
  fixed_reg_.clear();
}

void Emitter::StartAccumulators(const Block& block) {
  for (ValueId id : block.scans) {
    const int reg = accumulator_[{id, 0}] = TakeFixed();
    Clear(Vector(reg, kernel_[id].type));
  }
  for (ValueId id : block.reductions) {
    const Type type = kernel_[id].type;
    for (int copy = 0; copy < block.copies; ++copy) {
      const int reg = TakeFixed();
      accumulator_[{id, copy}] = reg;
      Move(Vector(reg, type), Pool(IdentityBits(kernel_[id]), kernel_ir::Is64Bit(type), Bits(type)));
    }
  }
}

// In a row each lane after the other, in a column all at once: what each point has so far.
void Emitter::EmitScan(ValueId id) {
  const Inst& inst = kernel_[id];
  const Xbyak::Xmm value = Reg(inst.args[0]);
  const int reg = accumulator_[{id, 0}], element = kernel_ir::Is64Bit(inst.type) ? 8 : 4;
  if (kernel_.skeleton == Skeleton::kColumn) {
    const Xbyak::Xmm sum = Vector(reg, inst.type);
    Combine(inst.op, inst.type, sum, sum, value);
    return Move(Define(id), sum);
  }
  if (inst.type == Type::kI64 && Bits(inst.type) == 512) {
    // Integers may be added in any order: by steps of one, two and four lanes, and to what was before.
    const Xbyak::Zmm shifted(kScratch0), zero(kScratch1), before(reg), out(DefineEarly(id).getIdx());
    Clear(zero);
    valignq(shifted, Xbyak::Zmm(value.getIdx()), zero, 7);
    vpaddq(out, shifted, Xbyak::Zmm(value.getIdx()));
    for (const std::uint8_t step : {2, 4}) {
      valignq(shifted, out, zero, static_cast<std::uint8_t>(8 - step));
      vpaddq(out, out, shifted);
    }
    vpaddq(out, out, before);
    vmovups(shifted, Pool(7, true, 512));
    return vpermq(before, shifted, out);  // the last lane for all
  }
  const Xbyak::Xmm sum(reg), next(kScratch0);
  const int from = lane_buffer_, to = lane_buffer_ + lane_bytes_;
  vmovups(Stack(from, Bits(inst.type)), value);
  for (int l = 0; l < lanes_; ++l) {
    const auto at = [&](int buffer) { return Sized(element * 8)[rsp + buffer + l * element]; };
    switch (inst.type) {
      case Type::kF64:
        vaddsd(sum, sum, at(from)), vmovsd(at(to), sum);
        break;
      case Type::kF32:
        vaddss(sum, sum, at(from)), vmovss(at(to), sum);
        break;
      case Type::kI64:
        vmovq(next, at(from)), vpaddq(sum, sum, next), vmovq(at(to), sum);
        break;
      case Type::kI32:
      case Type::kPred:
        vmovd(next, at(from)), vpaddd(sum, sum, next), vmovd(at(to), sum);
    }
  }
  vmovups(DefineEarly(id), Stack(to, Bits(inst.type)));
}

void Emitter::FinishAccumulators(const Block& block) {
  for (ValueId id : block.reductions) {
    const Inst& inst = kernel_[id];
    const int first = accumulator_[{id, 0}];
    for (int half = block.copies / 2; half > 0; half /= 2) {
      for (int copy = 0; copy < half; ++copy) {
        const Xbyak::Xmm a = Vector(accumulator_[{id, copy}], inst.type);
        Combine(inst.op, inst.type, a, a, Vector(accumulator_[{id, copy + half}], inst.type));
      }
    }
    HorizontalReduce(inst, first);
    vmovups(Home(id), Vector(first, inst.type));
    home_valid_[index(id)] = true;
  }
  for (const auto& [key, reg] : accumulator_) fixed_[static_cast<std::size_t>(reg)] = false;
  accumulator_.clear();
}

void Emitter::EmitReduce(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  const Xbyak::Xmm acc = Vector(accumulator_[{copies_[index(id)].of, point.copy}], inst.type);
  if (!point.tail) return Combine(inst.op, inst.type, acc, acc, Any(inst.args[0]).get());
  // Lanes past the end take the identity.
  const bool wide = kernel_ir::Is64Bit(inst.type);
  const Xbyak::Xmm value = Reg(inst.args[0]), t = Vector(kScratch0, inst.type), mask = Vector(kScratch1, inst.type);
  vmovups(t, Pool(IdentityBits(inst), wide, Bits(inst.type)));
  if (evex_) {
    const Xbyak::Opmask& k = TailMask();
    wide ? vblendmpd(t | k, t, value) : vblendmps(t | k, t, value);
  } else {
    vmovups(mask, Stack(wide ? frame::kMask64 : frame::kMask32, Bits(inst.type)));
    vblendvps(t, t, value, mask);
  }
  Combine(inst.op, inst.type, acc, acc, t);
}

// All lanes get the result.
void Emitter::HorizontalReduce(const Inst& inst, int reg) {
  const Xbyak::Xmm value = Vector(reg, inst.type), t = Vector(kScratch0, inst.type);
  if (Bits(inst.type) == 512) {
    for (const std::uint8_t swap : {0x4e, 0xb1}) {  // halves, then quarters
      vshuff64x2(Xbyak::Zmm(kScratch0), Xbyak::Zmm(reg), Xbyak::Zmm(reg), swap);
      Combine(inst.op, inst.type, value, value, t);
    }
  } else if (Bits(inst.type) == 256) {
    vperm2f128(Xbyak::Ymm(kScratch0), Xbyak::Ymm(reg), Xbyak::Ymm(reg), 1);
    Combine(inst.op, inst.type, value, value, t);
  }
  vshufps(t, value, value, 0x4e);
  Combine(inst.op, inst.type, value, value, t);
  if (kernel_ir::Is64Bit(inst.type)) return;
  vshufps(t, value, value, 0xb1);
  Combine(inst.op, inst.type, value, value, t);
}

}  // namespace framefuse::emit
