// Loads and stores of all element types, contiguous, strided, indexed, uniform, with tails. See emitter.h.
// Whatever has no masked or strided vector form goes lane by lane through a buffer on the stack.
#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {

using kernel_ir::ElementSize;
using kernel_ir::Inner;
using kernel_ir::kNoValue;

// Register with the buffer's address for the current row (and segment).
Xbyak::Reg64 Emitter::Base(int buffer, const Point& point, const Xbyak::Reg64& scratch) {
  if (kernel_.skeleton == kernel_ir::Skeleton::kColumn && point.row >= 0) {
    mov(scratch, Stack(column_slot_ + (buffer * 8 + point.row) * 8));
    return scratch;
  }
  if (kernel_.skeleton == kernel_ir::Skeleton::kTransposed) {
    mov(scratch, RowPointer(buffer, point.row));
    return scratch;
  }
  if (const auto it = pointer_.find(buffer); it != pointer_.end()) return it->second;
  mov(scratch, Stack((use_current_ ? current_slot_ : row_slot_) + buffer * 8));
  return scratch;
}

Xbyak::Address Emitter::At(const Xbyak::Reg64& base, int element, const Point& point) {
  return ptr[base + rbx * element + point.copy * lanes_ * element];
}

void Emitter::EmitIota(const Inst& inst, const Xbyak::Xmm& out, const Point& point) {
  const Xbyak::Xmm first(kScratch0);
  const bool wide = inst.type == Type::kI64, along = inst.op == Op::kIota;
  if (along) {
    lea(rax, ptr[rbx + point.copy * lanes_]);
  } else {
    mov(rax, Stack(frame::kReducedRow));
    if (point.row > 0) add(rax, point.row);
  }
  vmovq(first, rax);
  wide ? vpbroadcastq(out, first) : vpbroadcastd(out, first);
  if (!along) return;
  const Xbyak::Label& lanes = wide ? lanes64_ : lanes32_;
  const int bits = Bits(inst.type);
  const Xbyak::Address from = bits == 512 ? zword[rip + lanes] : bits == 256 ? yword[rip + lanes] : xword[rip + lanes];
  wide ? vpaddq(out, out, from) : vpaddd(out, out, from);
}

void Emitter::EmitLeaf(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  const Xbyak::Xmm out = DefineEarly(id);
  if (inst.op == Op::kIota || inst.op == Op::kRowIota) return EmitIota(inst, out, point);
  const Xbyak::Address from = Size(layout_.Param(inst.slot), rax);
  const Xbyak::Xmm low(out.getIdx());
  switch (inst.type) {
    case Type::kI64:
      vpbroadcastq(out, from);
      break;
    case Type::kF64:
      BroadcastDouble(out, from);
      break;
    case Type::kF32:
      vxorps(low, low, low);
      vcvtsd2ss(low, low, from);
      vbroadcastss(out, low);
      break;
    case Type::kI32:
    case Type::kPred:
      vpbroadcastd(out, dword[rax + layout_.Param(inst.slot) * 8]);
      break;
  }
}

void Emitter::BroadcastDouble(const Xbyak::Xmm& out, const Xbyak::Address& from) {
  vbroadcastsd(out.isZMM() ? Xbyak::Zmm(out.getIdx()) : Xbyak::Ymm(out.getIdx()), from);
}

void Emitter::EmitUniformLoad(DType dtype, const Xbyak::Xmm& out, const Xbyak::Reg64& base) {
  const Xbyak::Xmm low(out.getIdx());
  switch (dtype) {
    case DType::kF32:
      vbroadcastss(out, dword[base]);
      return;
    case DType::kF64:
      BroadcastDouble(out, qword[base]);
      return;
    case DType::kI64:
      vpbroadcastq(out, qword[base]);
      return;
    case DType::kI32:
      vpbroadcastd(out, dword[base]);
      return;
    case DType::kBF16:
      movzx(eax, word[base]);
      shl(eax, 16);
      break;
    case DType::kF16:
      movzx(eax, word[base]);
      vmovd(low, eax);
      vcvtph2ps(low, low);
      vbroadcastss(out, low);
      return;
    case DType::kI16:
      movsx(eax, word[base]);
      break;
    case DType::kI8:
      movsx(eax, byte[base]);
      break;
    case DType::kU8:
      movzx(eax, byte[base]);
      break;
    case DType::kBool:
      cmp(byte[base], 1);
      sbb(eax, eax);  // -1 for 0, 0 for anything else
      not_(eax);
      break;
  }
  vmovd(low, eax);
  vpbroadcastd(out, low);
}

// A full vector of packed elements.
void Emitter::EmitPackedLoad(DType dtype, const Xbyak::Xmm& out, const Xbyak::Address& from) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kI32:
    case DType::kI64:
      vmovups(out, from);
      return;
    case DType::kBF16:
      vpmovzxwd(out, from);
      vpslld(out, out, 16);
      return;
    case DType::kF16:
      vcvtph2ps(out, from);
      return;
    case DType::kI16:
      vpmovsxwd(out, from);
      return;
    case DType::kI8:
      vpmovsxbd(out, from);
      return;
    case DType::kU8:
      vpmovzxbd(out, from);
      return;
    case DType::kBool:
      vpmovzxbd(out, from);
      if (out.isZMM()) {
        vptestmd(k2, out, out);
        vpmovm2d(out, k2);
        return;
      }
      Clear(Vector(kScratch0, Type::kI32));
      vpcmpgtd(out, out, Vector(kScratch0, Type::kI32));
      return;
  }
}

void Emitter::EmitLoad(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  const kernel_ir::Buffer& buffer = kernel_.buffers[static_cast<std::size_t>(inst.slot)];
  const int size = ElementSize(buffer.dtype);
  std::optional<Xbyak::Xmm> elements;
  if (inst.op == Op::kLoadFrom) elements = Reg(inst.args[0]);
  const Xbyak::Xmm out = DefineEarly(id);
  const auto base = [&](const Xbyak::Reg64& scratch) {
    const Xbyak::Reg64 begin = Base(inst.slot, point, scratch);
    if (!elements) return begin;
    vmovq(rdx, Xbyak::Xmm(elements->getIdx()));
    lea(scratch, ptr[begin + rdx * size]);
    return scratch;
  };
  if (buffer.inner == Inner::kUniform) return EmitUniformLoad(buffer.dtype, out, base(rcx));
  if (buffer.inner == Inner::kContiguous && !point.tail) {
    return EmitPackedLoad(buffer.dtype, out, At(base(rax), size, point));
  }
  if (buffer.inner == Inner::kContiguous && size >= 4) {
    if (evex_) {
      const Xbyak::Xmm masked = out | TailMask() | T_z;
      const Xbyak::Address from = At(base(rax), size, point);
      size == 8 ? vmovupd(masked, from) : vmovups(masked, from);
      return;
    }
    const int bits = size == 8 || !wide_ ? 256 : 128;
    const Xbyak::Xmm mask = Vector(kScratch0, bits);
    vmovups(mask, Stack(size == 8 ? frame::kMask64 : frame::kMask32, bits));
    const Xbyak::Address from = At(base(rax), size, point);
    size == 8 ? vmaskmovpd(out, mask, from) : vmaskmovps(out, mask, from);
    return;
  }
  LanePointer(inst.slot, point);
  if (elements) {
    vmovq(rax, Xbyak::Xmm(elements->getIdx()));
    lea(rcx, ptr[rcx + rax * size]);
  }
  CopyLanes(size, true, point);
  EmitPackedLoad(buffer.dtype, out, ptr[rsp + lane_buffer_]);
}

// rcx: address of the first lane, rdx: distance of lanes in bytes.
void Emitter::LanePointer(int buffer, const Point& point) {
  const kernel_ir::Buffer& b = kernel_.buffers[static_cast<std::size_t>(buffer)];
  if (b.inner != Inner::kContiguous) {
    mov(rdx, Size(layout_.InnerStride(buffer), rdx));
    lea(rax, ptr[rbx + point.copy * lanes_]);
    imul(rax, rdx);
    const Xbyak::Reg64 base = Base(buffer, point, rcx);
    lea(rcx, ptr[base + rax]);
    return;
  }
  const Xbyak::Reg64 base = Base(buffer, point, rcx);
  lea(rcx, At(base, ElementSize(b.dtype), point));
  mov(edx, ElementSize(b.dtype));
}

// Between memory at rcx (step rdx) and the lane buffer.
void Emitter::CopyLanes(int element, bool load, const Point& point) {
  Xbyak::Label done;
  for (int l = 0; l < lanes_; ++l) {
    if (point.tail && l > 0) {
      cmp(Stack(frame::kRemaining), l);
      jle(done);
    }
    const auto buffer = ptr[rsp + lane_buffer_ + l * element];
    const auto move = [&](const Xbyak::Reg& r) {
      load ? (mov(r, ptr[rcx]), mov(buffer, r)) : (mov(r, buffer), mov(ptr[rcx], r));
    };
    switch (element) {
      case 1:
        move(al);
        break;
      case 2:
        move(ax);
        break;
      case 4:
        move(eax);
        break;
      default:
        move(rax);
        break;
    }
    if (l + 1 < lanes_) add(rcx, rdx);
  }
  L(done);
}

void Emitter::EmitLoadAt(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  const DType dtype = kernel_.buffers[static_cast<std::size_t>(inst.slot)].dtype;
  const int size = ElementSize(dtype);
  const Xbyak::Xmm at = Reg(inst.args[0]);
  const Xbyak::Xmm out = DefineEarly(id);
  mov(rdx, Size(layout_.InnerStride(inst.slot), rdx));
  if (Uniform(id)) {
    vmovq(rcx, Xbyak::Xmm(at.getIdx()));
    imul(rcx, rdx);
    const Xbyak::Reg64 base = Base(inst.slot, point, rax);
    add(rcx, base);
    EmitUniformLoad(dtype, out, rcx);
    return;
  }
  Xbyak::Label done;
  const int indices = lane_buffer_ + lane_bytes_;
  vmovups(Stack(indices, Bits(Type::kI64)), at);
  for (int l = 0; l < lanes_; ++l) {
    if (point.tail && l > 0) {
      cmp(Stack(frame::kRemaining), l);
      jle(done);
    }
    mov(rcx, Stack(indices + l * 8));
    imul(rcx, rdx);
    const Xbyak::Reg64 base = Base(inst.slot, point, rax);
    add(rcx, base);
    const auto buffer = ptr[rsp + lane_buffer_ + l * size];
    const auto move = [&](const Xbyak::Reg& r) { mov(r, ptr[rcx]), mov(buffer, r); };
    size == 1 ? move(al) : size == 2 ? move(ax) : size == 4 ? move(eax) : move(rax);
  }
  L(done);
  EmitPackedLoad(dtype, out, ptr[rsp + lane_buffer_]);
}

// Puts the memory form of `value` packed into the low bytes of a register.
int Emitter::PackForStore(DType dtype, const Xbyak::Xmm& value) {
  const Xbyak::Xmm t = Vector(kScratch0, Type::kI32), low(kScratch0), high(kScratch1);
  const bool ymm = Bits(Type::kI32) == 256, zmm = Bits(Type::kI32) == 512;
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kI32:
    case DType::kI64:
      return value.getIdx();
    case DType::kF16:
      vcvtps2ph(Half(kScratch0, Bits(Type::kF32)), value, 0);
      return kScratch0;
    case DType::kBF16:
      RoundToBFloat16(t, value);
      if (zmm) {
        const Xbyak::Zmm places(kScratch1);
        vmovups(places, zword[rip + odd_words_]);
        vpermw(t, places, t);
        return kScratch0;
      }
      vpsrld(t, t, 16);
      if (ymm) vextracti128(high, Xbyak::Ymm(kScratch0), 1);
      vpackusdw(low, low, ymm ? high : low);
      return kScratch0;
    case DType::kI16:
      if (zmm) {
        vpmovdw(Xbyak::Ymm(kScratch0), value);
        return kScratch0;
      }
      // Saturating packs would clamp: keep the low 16 bits first.
      vpslld(t, value, 16);
      vpsrad(t, t, 16);
      if (ymm) vextracti128(high, Xbyak::Ymm(kScratch0), 1);
      vpackssdw(low, low, ymm ? high : low);
      return kScratch0;
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
      break;
  }
  vandps(t, value, PoolI(Type::kI32, dtype == DType::kBool ? 1 : 255));
  if (zmm) {
    vpmovdb(low, t);
    return kScratch0;
  }
  if (ymm) vextracti128(high, Xbyak::Ymm(kScratch0), 1);
  vpackusdw(low, low, ymm ? high : low);
  vpackuswb(low, low, low);
  return kScratch0;
}

void Emitter::StorePacked(int reg, int bytes, const Xbyak::Address& to) {
  switch (bytes) {
    case 64:
      vmovups(to, Xbyak::Zmm(reg));
      break;
    case 32:
      vmovups(to, Xbyak::Ymm(reg));
      break;
    case 16:
      vmovups(to, Xbyak::Xmm(reg));
      break;
    case 8:
      vmovq(to, Xbyak::Xmm(reg));
      break;
    case 4:
      vmovd(to, Xbyak::Xmm(reg));
      break;
    case 2:
      vpextrw(to, Xbyak::Xmm(reg), 0);
      break;
    default:
      vpextrb(to, Xbyak::Xmm(reg), 0);
      break;
  }
}

void Emitter::EmitStore(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  const kernel_ir::Buffer& buffer = kernel_.buffers[static_cast<std::size_t>(inst.slot)];
  const int size = ElementSize(buffer.dtype);
  const int reg = PackForStore(buffer.dtype, Reg(inst.args[0]));
  if (buffer.inner == Inner::kUniform) {
    const Xbyak::Reg64 base = Base(inst.slot, point, rax);
    return StorePacked(reg, size, ptr[base]);
  }
  if (buffer.inner == Inner::kContiguous && !point.tail) {
    return StorePacked(reg, size * lanes_, At(Base(inst.slot, point, rax), size, point));
  }
  if (buffer.inner == Inner::kContiguous && size >= 4) {
    const int bits = lanes_ * size * 8;
    if (evex_) {
      const Xbyak::Opmask& k = TailMask();
      const Xbyak::Address to = At(Base(inst.slot, point, rax), size, point);
      size == 8 ? vmovupd(to | k, Vector(reg, bits)) : vmovups(to | k, Vector(reg, bits));
      return;
    }
    const Xbyak::Xmm mask = Vector(kScratch1, bits);
    vmovups(mask, Stack(size == 8 ? frame::kMask64 : frame::kMask32, bits));
    const Xbyak::Address to = At(Base(inst.slot, point, rax), size, point);
    size == 8 ? vmaskmovpd(to, mask, Vector(reg, bits)) : vmaskmovps(to, mask, Vector(reg, bits));
    return;
  }
  vmovups(Stack(lane_buffer_, lane_bytes_ * 8), Vector(reg, lane_bytes_ * 8));
  LanePointer(inst.slot, point);
  CopyLanes(size, false, point);
}

// Scratch rows are padded: tails read and write whole vectors.
void Emitter::EmitScratch(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  const int pointer = static_cast<int>(kernel_.buffers.size()) + inst.slot;
  const int size = kernel_ir::Is64Bit(inst.type) ? 8 : 4;
  Point own = point;
  if (kernel_.skeleton == kernel_ir::Skeleton::kColumn) own.row = -1;
  if (inst.op == Op::kScratchLoad) {
    const Xbyak::Xmm out = DefineEarly(id);
    vmovups(out, At(Base(pointer, own, rax), size, point));
  } else {
    const Xbyak::Xmm value = Reg(inst.args[0]);
    vmovups(At(Base(pointer, own, rax), size, point), value);
  }
}

}  // namespace framefuse::emit
