// Transposed reads: a group of rows at a time, and in it a vector of columns after another. The columns of a read are
// loaded along the rows, turned in registers, and put down as one vector for each row, which the rows' bodies then
// read. A group is as many rows as a cache line of the smallest type holds, so that each line is loaded once; it is
// turned in units of sixteen rows, the last of which may begin among rows that are done. Rows past the last whole group
// go along with it; only where there are fewer than a unit at all, elements are gathered one by one. r14 is the row in
// the group, times 8; r13 the end of the rows that are turned.
#include <algorithm>

#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {

using kernel_ir::ElementSize;
using kernel_ir::Inner;
using kernel_ir::Skeleton;

namespace {
constexpr int kUnit = 16, kLine = 64,
              kPiece = 16;  // rows; bytes of a cache line, and of a column that are loaded at once
}  // namespace

bool Emitter::CanTurn() const {
  return blocks_.size() == 1 && blocks_[0].kind == kernel_ir::BlockKind::kLoop && kernel_.outer_rank == 1 &&
         !kernel_.segments && pointers_ == static_cast<int>(kernel_.buffers.size());
}

bool Emitter::IsTurned(ValueId id) const {
  return kernel_.skeleton == Skeleton::kTransposed && kernel_[id].op == Op::kLoad &&
         kernel_.buffers[static_cast<std::size_t>(kernel_[id].slot)].inner == Inner::kTransposed;
}

bool Emitter::IsPerRow(ValueId id) const {
  return kernel_.skeleton == Skeleton::kTransposed && crosses_[index(id)] &&
         (levels_[index(id)] == Level::kRow || IsTurned(id));
}

int Emitter::GroupRows() const {
  int rows = kUnit;
  for (const kernel_ir::Buffer& b : kernel_.buffers) {
    if (b.inner == Inner::kTransposed) rows = std::max(rows, kLine / ElementSize(b.dtype));
  }
  return rows;
}

int Emitter::MostRows() const { return GroupRows() + kUnit; }

Xbyak::Address Emitter::RowPointer(int buffer, int row) {
  return qword[rsp + r14 + column_slot_ + (buffer * MostRows() + row) * 8];
}

Xbyak::Address Emitter::RowHome(ValueId v, int row) {
  const int bits = Bits(kernel_[v].type), bytes = bits / 8;
  if (home_[index(v)] < 0) {
    home_[index(v)] = (frame_ + bytes - 1) / bytes * bytes;
    frame_ = home_[index(v)] + MostRows() * bytes;
  }
  return Sized(bits)[rsp + r14 * (bytes / 8) + home_[index(v)] + row * bytes];
}

void Emitter::EmitTransposed() {
  const Block& block = blocks_.front();
  Xbyak::Label group, whole, done;
  L(group);
  mov(rax, Stack(frame::kRows));
  test(rax, rax);
  jle(done);
  cmp(rax, MostRows());
  jl(whole);
  mov(eax, GroupRows());
  L(whole);
  sub(Stack(frame::kRows), rax);
  shl(rax, 3);
  mov(Stack(frame::kGroup), rax);
  BeginGroup(block);
  FixRegisters(block);
  xor_(ebx, ebx);
  CountedLoop(lanes_, [&] { EmitUnits(block, false); });
  EmitTail([&] { EmitUnits(block, true); });
  ReleaseFixed();
  jmp(group);
  L(done);
}

// Where each row lies, and the values that are uniform in it.
void Emitter::BeginGroup(const Block& block) {
  Xbyak::Label row;
  xor_(r14d, r14d);
  L(row);
  mov(rdx, Stack(frame::kSizes));
  for (int b = 0; b < pointers_; ++b) {
    mov(rax, Stack(row_slot_ + b * 8));
    mov(RowPointer(b, 0), rax);
    add(rax, qword[rdx + layout_.Delta(b, 0) * 8]);
    mov(Stack(row_slot_ + b * 8), rax);
  }
  RunSequence(block.prefix, {});
  add(r14, 8);
  cmp(r14, Stack(frame::kGroup));
  jl(row);
}

// The rows of a group for a vector of columns.
void Emitter::EmitUnits(const Block& block, bool tail) {
  Xbyak::Label unit, few, one, rows;
  xor_(r14d, r14d);
  L(unit);
  mov(r13, Stack(frame::kGroup));
  sub(r13, kUnit * 8);
  jl(few);
  mov(r12, r14);
  cmp(r14, r13);
  cmovg(r14, r13);
  for (ValueId id : block.segment) Turn(id, tail);
  lea(r13, ptr[r14 + kUnit * 8]);
  mov(r14, r12);
  jmp(rows);
  L(few);
  L(one);
  RunSequence(block.segment, {0, 0, tail});
  add(r14, 8);
  cmp(r14, Stack(frame::kGroup));
  jl(one);
  mov(r13, r14);
  xor_(r14d, r14d);
  L(rows);
  if (!tail && block.copies > 1) RowLoop(block.copies, [&] { RunSequence(block.interleaved, {}); });
  RowLoop(1, [&] { RunSequence(block.body, {0, 0, tail}); });
  cmp(r14, Stack(frame::kGroup));
  jl(unit);
}

void Emitter::RowLoop(int step, const std::function<void()>& body) {
  Xbyak::Label top, done;
  L(top);
  lea(rax, ptr[r14 + step * 8]);
  cmp(rax, r13);
  jg(done);
  body();
  add(r14, step * 8);
  jmp(top);
  L(done);
}

// Puts a unit of rows, from r14 on, in the homes of a transposed load. Smaller elements are turned as words of four
// bytes, and taken out of them.
void Emitter::Turn(ValueId id, bool tail) {
  ChooseRegisters({id});
  std::vector<int> free;
  for (int r = 0; r < kRegisters; ++r) {
    if (IsForValues(r) && !fixed_[static_cast<std::size_t>(r)]) free.push_back(r);
  }
  const int size = ElementSize(kernel_.buffers[static_cast<std::size_t>(kernel_[id].slot)].dtype);
  const int pieces = kUnit * size / kPiece, columns = size == 8 ? 2 : 4;
  int together = pieces;
  while (together * columns > static_cast<int>(free.size())) together /= 2;
  for (int first = 0; first < pieces; first += together) {
    LoadPieces(id, first, together, free.data(), tail);
    for (int p = 0; p < together; ++p) {
      size == 8 ? TurnWide(id, first + p, &free[static_cast<std::size_t>(p * columns)])
                : TurnWords(id, first + p, &free[static_cast<std::size_t>(p * columns)]);
    }
  }
}

// Column c of a piece goes to lane c / columns of 128 bits in register c % columns. Past the last column it is read
// again. As many pieces of a column as a vector holds are loaded at once, and then exchanged: a processor keeps few
// loads in mind, and should use them for lines to come.
void Emitter::LoadPieces(ValueId id, int first, int pieces, const int* registers, bool tail) {
  const int slot = kernel_[id].slot, columns = kernel_ir::Is64Bit(kernel_[id].type) ? 2 : 4;
  const int lanes = Bits(kernel_[id].type) / 128, together = lanes == 4 ? std::min(pieces, lanes) : 1;
  mov(rdx, Size(layout_.InnerStride(slot), rdx));
  mov(rax, rbx);
  imul(rax, rdx);
  add(rax, RowPointer(slot, 0));
  if (tail) xor_(ecx, ecx);
  for (int c = 0; c < lanes_; ++c) {
    if (c > 0) add(rax, rdx);
    const int lane = c / columns * together;
    for (int p = 0; p < pieces; p += together) {
      const int reg = registers[(p + lane / lanes) * columns + c % columns];
      LoadLanes(Vector(reg, 128 * lanes), lane % lanes, together, ptr[rax + (first + p) * kPiece]);
    }
    if (!tail || c + 2 > lanes_) continue;
    cmp(Stack(frame::kRemaining), c + 1);
    cmovle(rdx, rcx);
  }
  for (int p = 0; together > 1 && p < pieces; p += together) {
    for (int c = 0; c < columns; ++c) ExchangeLanes(registers + p * columns + c, columns, together);
  }
}

void Emitter::LoadLanes(const Xbyak::Xmm& to, int lane, int many, const Xbyak::Address& from) {
  if (lane == 0) {
    vmovups(Vector(to.getIdx(), 128 * many), from);
  } else if (many == 2) {
    vinsertf64x4(Xbyak::Zmm(to.getIdx()), Xbyak::Zmm(to.getIdx()), from, 1);
  } else if (to.isZMM()) {
    vinsertf32x4(Xbyak::Zmm(to.getIdx()), Xbyak::Zmm(to.getIdx()), from, static_cast<std::uint8_t>(lane));
  } else {
    vinsertf128(Xbyak::Ymm(to.getIdx()), Xbyak::Ymm(to.getIdx()), from, 1);
  }
}

// Of `many` vectors, `step` apart: two or four pieces of a column after another become a piece of four columns each.
void Emitter::ExchangeLanes(const int* registers, int step, int many) {
  const auto v = [&](int i) { return Xbyak::Zmm(registers[i * step]); };
  const Xbyak::Zmm s(kScratch0), t(kScratch1);
  if (many == 2) {
    vshuff32x4(s, v(0), v(1), 0x88);
    vshuff32x4(v(1), v(0), v(1), 0xdd);
    vmovaps(v(0), s);
    return;
  }
  vshuff32x4(s, v(0), v(1), 0x44);
  vshuff32x4(v(0), v(0), v(1), 0xee);
  vshuff32x4(t, v(2), v(3), 0x44);
  vshuff32x4(v(2), v(2), v(3), 0xee);
  vshuff32x4(v(3), v(0), v(2), 0xdd);
  vshuff32x4(v(2), v(0), v(2), 0x88);
  vshuff32x4(v(0), s, t, 0x88);
  vshuff32x4(v(1), s, t, 0xdd);
}

void Emitter::TurnWide(ValueId id, int piece, const int* registers) {
  const Xbyak::Xmm a = Vector(registers[0], Type::kF64), b = Vector(registers[1], Type::kF64);
  const Xbyak::Xmm t = Vector(kScratch0, Type::kF64);
  vunpcklpd(t, a, b);
  vunpckhpd(a, a, b);
  vmovups(RowHome(id, 2 * piece), t);
  vmovups(RowHome(id, 2 * piece + 1), a);
}

void Emitter::TurnWords(ValueId id, int piece, const int* registers) {
  const auto v = [&](int i) { return Vector(registers[i], Type::kI32); };
  const Xbyak::Xmm a = v(0), b = v(1), c = v(2), out = v(3), t = Vector(kScratch0, Type::kI32);
  vunpcklps(t, a, b);
  vunpckhps(a, a, b);
  vunpcklps(b, c, out);
  vunpckhps(c, c, out);
  for (int row = 0; row < 4; ++row) {
    vshufps(out, row < 2 ? t : a, row < 2 ? b : c, row % 2 == 0 ? 0x44 : 0xee);
    PutElements(id, 4 * piece + row, out);
  }
}

// The elements in a word of four bytes belong to neighbouring rows.
void Emitter::PutElements(ValueId id, int word, const Xbyak::Xmm& words) {
  const DType dtype = kernel_.buffers[static_cast<std::size_t>(kernel_[id].slot)].dtype;
  const int size = ElementSize(dtype), many = 4 / size, bits = 8 * size;
  if (many == 1) return vmovups(RowHome(id, word), words);
  const bool sign = dtype == DType::kI8 || dtype == DType::kI16, whole = dtype == DType::kBF16;
  const Xbyak::Xmm t = Vector(kScratch1, Type::kI32);
  for (int k = 0; k < many; ++k) {
    const auto up = static_cast<std::uint8_t>(32 - bits * (k + 1)), down = static_cast<std::uint8_t>(32 - bits);
    if (whole && up == 0) {
      vandps(t, words, PoolI(Type::kI32, -65536));
    } else {
      if (up > 0) vpslld(t, words, up);
      const Xbyak::Xmm& from = up > 0 ? t : words;
      if (!whole) sign ? vpsrad(t, from, down) : vpsrld(t, from, down);
    }
    if (dtype == DType::kF16) WidenHalves(t);
    if (dtype == DType::kBool) {
      const Xbyak::Address zero = PoolI(Type::kI32, 0);
      evex_ ? CompareToMask(Op::kNe, Type::kI32, t, t, zero) : vpcmpgtd(t, t, zero);
    }
    vmovups(RowHome(id, word * many + k), t);
  }
}

// Of 32-bit lanes that hold one each.
void Emitter::WidenHalves(const Xbyak::Xmm& v) {
  const Xbyak::Xmm low = Half(v.getIdx(), Bits(Type::kI32));
  if (v.isZMM()) {
    vpmovdw(low, v);
  } else {
    vpackusdw(v, v, v);
    if (v.isYMM()) vpermq(Xbyak::Ymm(v.getIdx()), Xbyak::Ymm(v.getIdx()), 0x08);
  }
  vcvtph2ps(v, v.isXMM() ? v : low);
}

}  // namespace framefuse::emit
