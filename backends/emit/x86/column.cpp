// Column reductions: eight rows at a time, partial results of the columns in scratch rows. See emitter.h.
#include <algorithm>
#include <set>

#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {

using kernel_ir::ClassOf;
using kernel_ir::OpClass;

namespace {

bool CountsRows(const kernel_ir::Kernel& kernel) {
  return std::any_of(kernel.insts.begin(), kernel.insts.end(),
                     [](const kernel_ir::Inst& inst) { return inst.op == kernel_ir::Op::kRowIota; });
}

}  // namespace

void Emitter::EmitColumn() {
  const Block& body = blocks_.front();
  const bool counts = CountsRows(kernel_);
  if (counts) mov(Stack(frame::kReducedRow), 0);
  RunSequence(body.prefix, {0, -1, false});
  const Sequence all = Accumulated(body);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Inst& inst = kernel_[all[r]];
    const bool wide = kernel_ir::Is64Bit(inst.type);
    const Xbyak::Xmm identity = Vector(kScratch0, inst.type);
    vmovups(identity, Pool(IdentityBits(inst), wide, Bits(inst.type)));
    mov(rcx, Stack(row_slot_ +
                   static_cast<int>(kernel_.buffers.size() + static_cast<std::size_t>(kernel_.scratch_rows) + r) * 8));
    Xbyak::Label top, done;
    xor_(ebx, ebx);
    L(top);
    cmp(rbx, r15);
    jge(done);
    vmovups(ptr[rcx + rbx * (wide ? 8 : 4)], identity);
    add(rbx, lanes_);
    jmp(top);
    L(done);
  }
  for (int rows : {8, 1}) {
    Xbyak::Label top, done;
    L(top);
    cmp(Stack(frame::kRows), rows);
    jl(done);
    ColumnRows(body, rows);
    sub(Stack(frame::kRows), rows);
    if (counts) add(Stack(frame::kReducedRow), rows);
    jmp(top);
    L(done);
  }
  for (std::size_t k = 1; k < blocks_.size(); ++k) ColumnEpilogue(blocks_[k]);
}

// What has a scratch row, in their order.
Emitter::Sequence Emitter::Accumulated(const Block& block) {
  Sequence all = block.reductions;
  all.insert(all.end(), block.scans.begin(), block.scans.end());
  return all;
}

void Emitter::ColumnRows(const Block& block, int rows) {
  std::set<int> used;
  for (ValueId id : block.body) {
    const Op op = kernel_[id].op;
    if (op == Op::kLoad || op == Op::kLoadAt || op == Op::kStore) used.insert(kernel_[id].slot);
  }
  mov(rdx, Stack(frame::kSizes));
  for (int b : used) {
    mov(rax, Stack(row_slot_ + b * 8));
    mov(rcx, qword[rdx + layout_.Delta(b, 0) * 8]);
    for (int k = 0; k < rows; ++k) {
      mov(Stack(column_slot_ + (b * 8 + k) * 8), rax);
      add(rax, rcx);
    }
    mov(Stack(row_slot_ + b * 8), rax);
  }
  ChooseRegisters(block.body);
  const Sequence all = Accumulated(block);
  for (ValueId id : all) accumulator_[{id, 0}] = TakeFixed();
  FixRegisters(block);
  // The sums of scans go on from row to row; of reductions those of these rows are added to what others have.
  const auto before = [&](std::size_t r) {
    const int slot = static_cast<int>(kernel_.buffers.size() + r) + kernel_.scratch_rows;
    mov(rax, Stack(row_slot_ + slot * 8));
    return At(rax, kernel_ir::Is64Bit(kernel_[all[r]].type) ? 8 : 4, {});
  };
  const auto points = [&](bool tail) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      const Inst& inst = kernel_[all[r]];
      const Xbyak::Xmm acc = Vector(accumulator_[{all[r], 0}], inst.type);
      if (r >= block.reductions.size()) {
        vmovups(acc, before(r));
      } else {
        Move(acc, Pool(IdentityBits(inst), kernel_ir::Is64Bit(inst.type), Bits(inst.type)));
      }
    }
    for (int k = 0; k < rows; ++k) RunSequence(block.body, {0, k, tail});
    for (std::size_t r = 0; r < all.size(); ++r) {
      const Inst& inst = kernel_[all[r]];
      const Xbyak::Address at = before(r);
      const Xbyak::Xmm acc = Vector(accumulator_[{all[r], 0}], inst.type), others = Vector(kScratch0, inst.type);
      if (r < block.reductions.size()) {
        vmovups(others, at);
        Combine(inst.op, inst.type, acc, acc, others);
      }
      vmovups(at, acc);
    }
  };
  xor_(ebx, ebx);
  CountedLoop(lanes_, [&] { points(false); });
  EmitTail([&] { points(true); });
  ReleaseFixed();
  for (const auto& [key, reg] : accumulator_) fixed_[static_cast<std::size_t>(reg)] = false;
  accumulator_.clear();
}

// Runs a later block once for each column; reductions are read from their scratch rows.
void Emitter::ColumnEpilogue(const Block& block) {
  pointer_.clear();
  RunSequence(block.prefix, {0, -1, false});
  const auto points = [&](bool tail) {
    const Block& body = blocks_.front();
    for (std::size_t r = 0; r < body.reductions.size(); ++r) {
      const ValueId id = body.reductions[r];
      const Inst& inst = kernel_[id];
      const int slot = static_cast<int>(kernel_.buffers.size() + static_cast<std::size_t>(kernel_.scratch_rows) + r);
      mov(rax, Stack(row_slot_ + slot * 8));
      const Xbyak::Xmm t = Vector(kScratch0, inst.type);
      vmovups(t, At(rax, kernel_ir::Is64Bit(inst.type) ? 8 : 4, {}));
      vmovups(Home(id), t);
      home_valid_[index(id)] = true;
    }
    RunSequence(block.body, {0, -1, tail});
  };
  xor_(ebx, ebx);
  CountedLoop(lanes_, [&] { points(false); });
  EmitTail([&] { points(true); });
}

}  // namespace framefuse::emit
