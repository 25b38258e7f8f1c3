// Stack frame, walk over the rows, constant pool. See emitter.h.
#include <bit>
#include <limits>

#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {

using kernel_ir::SizesLayout;
using kernel_ir::Skeleton;

Emitter::Emitter(const kernel_ir::Kernel& kernel, bool evex, void* buffer, std::size_t capacity)
    : Xbyak::CodeGenerator(capacity, buffer),
      given_(kernel),
      kernel_(kernel),
      layout_(kernel),
      levels_(kernel_ir::ComputeLevels(kernel)),
      evex_(evex),
      wide_(kernel.Uses64Bit()),
      lanes_((wide_ ? 4 : 8) * (evex ? 2 : 1)),
      sequence_of_(kernel.insts.size(), -1),
      crosses_(kernel.insts.size(), false),
      home_(kernel.insts.size(), -1),
      home_valid_(kernel.insts.size(), false),
      uses_(kernel.insts.size()),
      reg_of_(kernel.insts.size(), -1) {
  for (std::size_t i = 0; i < kernel.insts.size(); ++i) copies_.push_back({static_cast<ValueId>(i), 0});
  owner_.fill(kernel_ir::kNoValue);
  pointers_ = static_cast<int>(kernel.buffers.size()) + kernel_ir::ScratchRowCount(kernel);
  frame_ = frame::kFree;
  if (evex_) {
    lane_buffer_ = frame_;
    lane_bytes_ = 64;
    frame_ += 4 * lane_bytes_;
  }
  const auto words = [&](int n) {
    const int at = frame_;
    frame_ += (n * 8 + 31) / 32 * 32;
    return at;
  };
  row_slot_ = words(pointers_);
  current_slot_ = words(pointers_);
  digit_slot_ = words(kernel.outer_rank);
  if (kernel.skeleton == Skeleton::kColumn) column_slot_ = words(pointers_ * 8);
  if (kernel.skeleton == Skeleton::kTransposed) column_slot_ = words(pointers_ * MostRows());
  setDefaultJmpNEAR(true);
}

bool Emitter::Run() {
  Partition();
  int most = 0;
  for (const Block& block : blocks_)
    most = std::max(most, static_cast<int>(block.reductions.size() + block.scans.size()));
  const bool transposed = kernel_.skeleton == Skeleton::kTransposed;
  if (most > 6 || (transposed && !CanTurn())) return false;
  Prologue();
  transposed ? EmitTransposed() : kernel_.skeleton == Skeleton::kColumn ? EmitColumn() : EmitRows();
  Epilogue();
  EmitPool();
  rewrite(frame_patch_, static_cast<std::uint64_t>((frame_ + 63) / 64 * 64), 4);
  return true;
}

const Xbyak::AddressFrame& Emitter::Sized(int bits) const {
  switch (bits) {
    case 512:
      return zword;
    case 256:
      return yword;
    case 128:
      return xword;
    case 32:
      return dword;
    default:
      return qword;
  }
}

Xbyak::Address Emitter::Size(int slot, const Xbyak::Reg64& scratch) {
  mov(scratch, Stack(frame::kSizes));
  return qword[scratch + slot * 8];
}

int Emitter::NewSlot() {
  const int bytes = evex_ ? 64 : 32;  // of one cache line
  frame_ = (frame_ + bytes - 1) / bytes * bytes + bytes;
  return frame_ - bytes;
}

void Emitter::Prologue() {
  push(rbp);
  mov(rbp, rsp);
  for (const Xbyak::Reg64& r : {rbx, r12, r13, r14, r15}) push(r);
  sub(rsp, 0x7fffff00);
  frame_patch_ = getSize() - 4;
  and_(rsp, -64);
  // rdi args, rsi begin, rdx end
  for (int p = 0; p < pointers_; ++p) {
    mov(rax, qword[rdi + p * 8]);
    mov(Stack(row_slot_ + p * 8), rax);
  }
  sub(rdx, rsi);
  mov(rax, qword[rdi + pointers_ * 8]);
  mov(Stack(frame::kSizes), rax);
  mov(r15, qword[rax + SizesLayout::kInner * 8]);
  mov(Stack(frame::kRows), rdx);
  if (kernel_.skeleton == Skeleton::kColumn) return;
  if (kernel_.outer_rank == 0) mov(r15, rdx);
  mov(rcx, qword[rdi + (pointers_ + 1) * 8]);
  for (int d = 0; d < kernel_.outer_rank; ++d) {
    mov(rax, qword[rcx + d * 8]);
    mov(Stack(digit_slot_ + d * 8), rax);
  }
}

void Emitter::Epilogue() {
  vzeroupper();
  lea(rsp, ptr[rbp - 40]);
  for (const Xbyak::Reg64& r : {r15, r14, r13, r12, rbx}) pop(r);
  pop(rbp);
  ret();
}

void Emitter::EmitRows() {
  Xbyak::Label row, done;
  cmp(Stack(frame::kRows), 0);
  jle(done);
  align(16);
  L(row);
  for (const Block& block : blocks_) EmitLoop(block);
  if (kernel_.outer_rank > 0) {
    NextRow();
    sub(Stack(frame::kRows), 1);
    jg(row);
  }
  L(done);
}

// Increments the outer index like an odometer; the dimension where the carry ends says by how much pointers move.
void Emitter::NextRow() {
  Xbyak::Label done;
  std::vector<Xbyak::Label> carried(static_cast<std::size_t>(kernel_.outer_rank));
  mov(rcx, Stack(frame::kSizes));
  for (int d = kernel_.outer_rank - 1; d > 0; --d) {
    mov(rax, Stack(digit_slot_ + d * 8));
    add(rax, 1);
    cmp(rax, qword[rcx + layout_.Extent(d) * 8]);
    jne(carried[static_cast<std::size_t>(d)]);
    mov(Stack(digit_slot_ + d * 8), 0);
  }
  AddDeltas(0);
  for (int d = 1; d < kernel_.outer_rank; ++d) {
    jmp(done);
    L(carried[static_cast<std::size_t>(d)]);
    mov(Stack(digit_slot_ + d * 8), rax);
    AddDeltas(d);
  }
  L(done);
}

void Emitter::AddDeltas(int dimension) {
  for (int b = 0; b < static_cast<int>(kernel_.buffers.size()); ++b) {
    mov(rax, qword[rcx + layout_.Delta(b, dimension) * 8]);
    add(Stack(row_slot_ + b * 8), rax);
  }
}

// --- constants

Xbyak::Address Emitter::Pool(std::uint64_t bits, bool wide, int vector_bits) {
  const Xbyak::Label& label = pool_[{bits, wide}];
  return vector_bits == 512 ? zword[rip + label] : vector_bits == 256 ? yword[rip + label] : xword[rip + label];
}

Xbyak::Address Emitter::PoolF(Type type, double value) {
  return type == Type::kF64 ? Pool(std::bit_cast<std::uint64_t>(value), true, Bits(type))
                            : Pool(std::bit_cast<std::uint32_t>(static_cast<float>(value)), false, Bits(type));
}

Xbyak::Address Emitter::PoolI(Type type, std::int64_t value) {
  return kernel_ir::Is64Bit(type) ? Pool(static_cast<std::uint64_t>(value), true, Bits(type))
                                  : Pool(static_cast<std::uint32_t>(value), false, Bits(type));
}

Xbyak::Address Emitter::ConstAddress(const Inst& inst) {
  if (kernel_ir::IsFloat(inst.type)) return PoolF(inst.type, std::bit_cast<double>(inst.imm));
  if (inst.type == Type::kPred) return PoolI(Type::kI32, inst.imm != 0 ? -1 : 0);
  return PoolI(inst.type, static_cast<std::int64_t>(inst.imm));
}

std::uint64_t Emitter::IdentityBits(const Inst& inst) const {
  const bool max = inst.op == Op::kReduceMax || inst.op == Op::kReduceMaxRaw;
  if (inst.op == Op::kReduceSum || inst.op == Op::kScanSum) return 0;
  const double inf = std::numeric_limits<double>::infinity();
  const double f = inst.op == Op::kReduceProd ? 1 : max ? -inf : inf;
  switch (inst.type) {
    case Type::kF32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(f));
    case Type::kF64:
      return std::bit_cast<std::uint64_t>(f);
    case Type::kI64:
      return inst.op == Op::kReduceProd ? 1 : max ? 1ull << 63 : ~(1ull << 63);
    case Type::kI32:
    case Type::kPred:
      break;
  }
  return inst.op == Op::kReduceProd ? 1 : max ? 1u << 31 : ~(1u << 31);
}

void Emitter::EmitPool() {
  align(evex_ ? 64 : 32);
  for (auto& [key, label] : pool_) {
    L(label);
    for (int i = 0; i < (evex_ ? 8 : 4); ++i) dq(key.second ? key.first : key.first | key.first << 32);
  }
  if (evex_) {
    L(odd_words_);
    for (int i = 0; i < 32; ++i) dw(static_cast<std::uint16_t>(2 * i + 1));
  }
  L(lanes64_);
  for (int i = 0; i < 8; ++i) dq(static_cast<std::uint64_t>(i));
  L(lanes32_);
  for (int i = 0; i < 16; ++i) dd(static_cast<std::uint32_t>(i));
  L(mask32_);
  for (int i = 0; i < 16; ++i) dd(i < 8 ? 0xffffffffu : 0);
  L(mask64_);
  for (int i = 0; i < 8; ++i) dq(i < 4 ? ~0ull : 0);
}

}  // namespace framefuse::emit
