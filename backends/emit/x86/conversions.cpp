// Conversions between lane types, and calls of functions that are not expanded. See emitter.h.
#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/emit/x86/emitter.h"
#include "backends/kernel_ir/evaluate.h"

namespace framefuse::emit {
namespace {

using kernel_ir::Inst;
using kernel_ir::Op;
using kernel_ir::Type;

// What emitted code calls: operands lie in the first three vectors at `lanes`, the result goes to the fourth.
template <Type from, int n, int bytes>
void CallEvaluate(const Inst* inst, char* lanes) {
  kernel_ir::Evaluate(*inst, from, lanes + 3 * bytes, lanes, lanes + bytes, lanes + 2 * bytes, n);
}

using Callee = void (*)(const Inst*, char*);

template <int n, int bytes>
Callee CalleeFor(Type from) {
  switch (from) {
    case Type::kPred:
      return CallEvaluate<Type::kPred, n, bytes>;
    case Type::kI32:
      return CallEvaluate<Type::kI32, n, bytes>;
    case Type::kI64:
      return CallEvaluate<Type::kI64, n, bytes>;
    case Type::kF32:
      return CallEvaluate<Type::kF32, n, bytes>;
    case Type::kF64:
      break;
  }
  return CallEvaluate<Type::kF64, n, bytes>;
}

Callee CalleeFor(Type from, int lanes, int bytes) {
  if (bytes == 64)
    return lanes == 16 ? CalleeFor<16, 64>(from) : lanes == 8 ? CalleeFor<8, 64>(from) : CalleeFor<4, 64>(from);
  return lanes == 8 ? CalleeFor<8, 32>(from) : CalleeFor<4, 32>(from);
}

}  // namespace

// Low 32 bits of four 64-bit lanes.
void Emitter::Narrow(const Xbyak::Xmm& out, const Xbyak::Xmm& wide) {
  if (wide.isZMM()) return vpmovqd(out, wide);
  vextracti128(Xbyak::Xmm(kScratch1), Xbyak::Ymm(wide.getIdx()), 1);
  vshufps(Xbyak::Xmm(out.getIdx()), Xbyak::Xmm(wide.getIdx()), Xbyak::Xmm(kScratch1), 0x88);
}

bool Emitter::NeedsCall(const Inst& inst) const {
  if (kernel_ir::ClassOf(inst.op) == kernel_ir::OpClass::kMath) return true;
  if (inst.op != Op::kCast) return false;
  const Type from = kernel_[inst.args[0]].type;
  return (kernel_ir::IsFloat(from) && inst.type == Type::kI64) || (from == Type::kI64 && kernel_ir::IsFloat(inst.type));
}

bool Emitter::NeedsCall(const Sequence& sequence) const {
  for (ValueId id : sequence) {
    if (NeedsCall(kernel_[id])) return true;
  }
  return false;
}

void Emitter::EmitCall(ValueId id) {
  const Inst& inst = kernel_[id];
  const Type from = kernel_[inst.args[0]].type;
  const bool wide = kernel_ir::Is64Bit(from) || kernel_ir::Is64Bit(inst.type);
  for (int a = 0; a < kernel_ir::Arity(inst.op); ++a) {
    const Xbyak::Xmm value = Reg(inst.args[static_cast<std::size_t>(a)]);
    vmovups(Stack(lane_buffer_ + lane_bytes_ * a, Bits(kernel_[inst.args[static_cast<std::size_t>(a)]].type)), value);
  }
  SpillAll();
  vzeroupper();
  mov(rdi, reinterpret_cast<std::size_t>(&given_[id]));  // which outlives the code
  lea(rsi, ptr[rsp + lane_buffer_]);
  mov(rax, reinterpret_cast<std::size_t>(CalleeFor(from, wide && !wide_ ? 4 : lanes_, lane_bytes_)));
  call(rax);
  ReloadFixed();
  pinned_.fill(false);
  const Xbyak::Xmm out = DefineEarly(id);
  const int result = lane_buffer_ + 3 * lane_bytes_;
  if (wide && !kernel_ir::Is64Bit(inst.type) && !wide_) {
    vbroadcastss(out, dword[rsp + result]);  // uniform: four lanes were made, more are wanted
  } else {
    vmovups(out, Stack(result, Bits(inst.type)));
  }
}

// 64-bit uniform to 32-bit in a kernel whose elements have 32 bits.
bool Emitter::EmitUniformCast(ValueId id) {
  const Inst& inst = kernel_[id];
  const Type from = kernel_[inst.args[0]].type;
  if (wide_ || !kernel_ir::Is64Bit(from) || kernel_ir::Is64Bit(inst.type)) return false;
  const Xbyak::Xmm a = Reg(inst.args[0]);
  const Xbyak::Xmm t(kScratch0), out = Define(id);
  if (from == Type::kI64) {
    vpbroadcastd(out, Xbyak::Xmm(a.getIdx()));
  } else {
    inst.type == Type::kF32 ? vcvtpd2ps(t, a) : vcvttpd2dq(t, a);
    vpbroadcastd(out, t);
  }
  return true;
}

void Emitter::EmitCast(ValueId id) {
  const Inst& inst = kernel_[id];
  const Type from = kernel_[inst.args[0]].type, to = inst.type;
  if (to == Type::kPred) {
    const Xbyak::Xmm a = Reg(inst.args[0]);
    const Xbyak::Xmm zero = Vector(kScratch0, from), out = Define(id);
    const bool wide = kernel_ir::Is64Bit(from);
    const Xbyak::Xmm result = wide ? zero : out;
    Clear(zero);
    if (Bits(from) == 512) return CompareToMask(Op::kNe, from, out, a, zero);
    if (kernel_ir::IsFloat(from)) {
      wide ? vcmppd(result, a, zero, 4) : vcmpps(result, a, zero, 4);
    } else {
      wide ? vpcmpeqq(result, a, zero) : vpcmpeqd(result, a, zero);
      vpxor(result, result, PoolI(from, -1));
    }
    if (!wide) return;
    return wide_ ? Narrow(out, zero) : vpbroadcastd(out, Xbyak::Xmm(kScratch0));
  }
  if (from == Type::kPred) {
    const Xbyak::Xmm a = Reg(inst.args[0]);
    const Xbyak::Xmm out = Define(id);
    if (!kernel_ir::Is64Bit(to)) return vandps(out, a, kernel_ir::IsFloat(to) ? PoolF(to, 1) : PoolI(to, 1));
    vpmovsxdq(out, Half(a.getIdx(), Bits(to)));
    return vandps(out, out, kernel_ir::IsFloat(to) ? PoolF(to, 1) : PoolI(to, 1));
  }
  if (EmitUniformCast(id)) return;
  const Xbyak::Xmm a = Reg(inst.args[0]);
  const Xbyak::Xmm out = Define(id), low = Half(a.getIdx(), Bits(to)), narrow = Half(out.getIdx(), Bits(from));
  const auto pair = [](Type x, Type y) { return static_cast<int>(x) * 8 + static_cast<int>(y); };
  switch (pair(from, to)) {
    case static_cast<int>(Type::kI32) * 8 + static_cast<int>(Type::kF32):
      return vcvtdq2ps(out, a);
    case static_cast<int>(Type::kI32) * 8 + static_cast<int>(Type::kF64):
      return vcvtdq2pd(out, low);
    case static_cast<int>(Type::kI32) * 8 + static_cast<int>(Type::kI64):
      return vpmovsxdq(out, low);
    case static_cast<int>(Type::kF32) * 8 + static_cast<int>(Type::kI32):
      return vcvttps2dq(out, a);
    case static_cast<int>(Type::kF32) * 8 + static_cast<int>(Type::kF64):
      return vcvtps2pd(out, low);
    case static_cast<int>(Type::kF64) * 8 + static_cast<int>(Type::kI32):
      return vcvttpd2dq(narrow, a);
    case static_cast<int>(Type::kF64) * 8 + static_cast<int>(Type::kF32):
      return vcvtpd2ps(narrow, a);
    case static_cast<int>(Type::kI64) * 8 + static_cast<int>(Type::kI32):
      return Narrow(out, a);
    default:
      return Move(out, a);
  }
}

// A NaN here can be none whose fraction's upper seven bits overflow, or are all zero, when a bf16 is rounded up: those
// that come from bf16 numbers have no more bits, those of operations only the uppermost.
bool Emitter::NaNsAreShort() const {
  const auto is_short = [](const kernel_ir::Buffer& b) {
    return b.written || !kernel_ir::IsFloat(kernel_ir::ComputeType(b.dtype)) || b.dtype == DType::kBF16;
  };
  const auto is_long = [](const Inst& inst) {
    if (inst.op != Op::kConst || inst.type != Type::kF32) return inst.op == Op::kParam && kernel_ir::IsFloat(inst.type);
    const auto value = static_cast<float>(std::bit_cast<double>(inst.imm));
    return std::isnan(value) && (std::bit_cast<std::uint32_t>(value) & 0xffff) != 0;
  };
  return std::all_of(kernel_.buffers.begin(), kernel_.buffers.end(), is_short) &&
         std::none_of(kernel_.insts.begin(), kernel_.insts.end(), is_long);
}

// Rounds to nearest even; the low half of each lane is left undefined. NaN stays NaN.
void Emitter::RoundToBFloat16(const Xbyak::Xmm& out, const Xbyak::Xmm& value) {
  const bool any_nan = !NaNsAreShort();
  const Xbyak::Xmm t = any_nan ? Vector(kScratch1, Type::kI32) : out;
  const Xbyak::Address nan = Pool(0x7fc00000, false, Bits(Type::kI32));
  if (out.isZMM()) {
    vptestmd(k2, value, PoolI(Type::kI32, 0x10000));
    vpaddd(t, value, PoolI(Type::kI32, 0x7fff));
    vpaddd(t | k2, t, PoolI(Type::kI32, 1));
    if (any_nan) vcmpps(k2, value, value, 3), vblendmps(out | k2, t, nan);
    return;
  }
  vpsrld(t, value, 16);
  vandps(t, t, PoolI(Type::kI32, 1));
  vpaddd(t, t, PoolI(Type::kI32, 0x7fff));
  vpaddd(t, t, value);
  if (any_nan) vcmpps(out, value, value, 3), vblendvps(out, t, nan, out);
}

void Emitter::EmitWrap(ValueId id) {
  const Inst& inst = kernel_[id];
  const Xbyak::Xmm a = Reg(inst.args[0]);
  const auto shift = [&](std::uint8_t n, bool sign) {
    const Xbyak::Xmm out = Define(id);
    vpslld(out, a, n);
    sign ? vpsrad(out, out, n) : vpsrld(out, out, n);
  };
  switch (static_cast<DType>(inst.imm)) {
    case DType::kU8:
      return shift(24, false);
    case DType::kI8:
      return shift(24, true);
    case DType::kI16:
      return shift(16, true);
    case DType::kF16: {
      const Xbyak::Xmm half = Half(kScratch0, Bits(Type::kF32));
      vcvtps2ph(half, a, 0);
      return vcvtph2ps(Define(id), half);
    }
    case DType::kBF16: {
      const Xbyak::Xmm out = DefineEarly(id);
      RoundToBFloat16(out, a);
      return vandps(out, out, PoolI(Type::kI32, -65536));
    }
    case DType::kBool:
    case DType::kI32:
    case DType::kI64:
    case DType::kF32:
    case DType::kF64:
      return Move(Define(id), a);  // as wide as it is computed
  }
}

}  // namespace framefuse::emit
