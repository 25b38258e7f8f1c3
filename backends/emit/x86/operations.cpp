// Arithmetic, comparisons, selects and bit operations. See emitter.h.
#include "backends/emit/x86/emitter.h"
#include "common/check.h"

namespace framefuse::emit {

using kernel_ir::ClassOf;
using kernel_ir::OpClass;

void Emitter::EmitInst(ValueId id, const Point& point) {
  const Inst& inst = kernel_[id];
  if (NeedsCall(inst)) return EmitCall(id);
  switch (inst.op) {
    case Op::kConst:
      return;
    case Op::kParam:
    case Op::kIota:
    case Op::kRowIota:
      return EmitLeaf(id, point);
    case Op::kLoad:
    case Op::kLoadFrom:
      return EmitLoad(id, point);
    case Op::kLoadAt:
      return EmitLoadAt(id, point);
    case Op::kStore:
      return EmitStore(id, point);
    case Op::kScratchLoad:
    case Op::kScratchStore:
      return EmitScratch(id, point);
    case Op::kFma:
      return EmitFma(id);
    case Op::kSelect:
      return EmitSelect(id);
    case Op::kInRange: {
      const Xbyak::Xmm a = Reg(inst.args[0]);
      return Move(Define(id), a);
    }
    case Op::kCast:
      return EmitCast(id);
    case Op::kWrap:
      return EmitWrap(id);
    default:
      break;
  }
  if (ClassOf(inst.op) == OpClass::kReduce) return EmitReduce(id, point);
  if (ClassOf(inst.op) == OpClass::kScan) return EmitScan(id);
  if (ClassOf(inst.op) == OpClass::kCompare) return EmitCompare(id);
  if (ClassOf(inst.op) == OpClass::kBits) return EmitBits(id);
  EmitArith(id);
}

void Emitter::EmitArith(ValueId id) {
  const Inst& inst = kernel_[id];
  const Type type = inst.type;
  switch (inst.op) {
    case Op::kFloor:
      return Rounding(id, 1);
    case Op::kCeil:
      return Rounding(id, 2);
    case Op::kTrunc:
      return Rounding(id, 3);
    case Op::kRound:
      return Rounding(id, 0);
    case Op::kSqrt: {
      const Operand a = Any(inst.args[0]);
      const Xbyak::Xmm out = Define(id);
      type == Type::kF64 ? vsqrtpd(out, a.get()) : vsqrtps(out, a.get());
      return;
    }
    case Op::kReciprocal14: {
      const Operand a = Any(inst.args[0]);
      const Xbyak::Xmm out = Define(id);
      return vrcp14ps(out, a.get());
    }
    case Op::kNeg:
      return EmitNeg(id);
    case Op::kAbs:
      return EmitAbs(id);
    default:
      break;
  }
  if (inst.op == Op::kMul && type == Type::kI64) {
    const Xbyak::Xmm a = Reg(inst.args[0]), b = Reg(inst.args[1]);
    return Multiply64(DefineEarly(id), a, b);
  }
  const bool swap = IsConst(inst.args[0]) && (inst.op == Op::kAdd || inst.op == Op::kMul);
  const Xbyak::Xmm a = Reg(inst.args[swap ? 1 : 0]);
  const Operand b = Any(inst.args[swap ? 0 : 1]);
  const bool early = inst.op == Op::kMin || inst.op == Op::kMax;
  Combine(inst.op, type, early ? DefineEarly(id) : Define(id), a, b.get());
}

void Emitter::EmitNeg(ValueId id) {
  const Type type = kernel_[id].type;
  const Xbyak::Xmm a = Reg(kernel_[id].args[0]);
  if (kernel_ir::IsFloat(type)) {
    const Xbyak::Xmm out = Define(id);
    type == Type::kF64 ? vxorpd(out, a, PoolF(type, -0.0)) : vxorps(out, a, PoolF(type, -0.0));
    return;
  }
  const Xbyak::Xmm zero = Vector(kScratch0, type), out = Define(id);
  Clear(zero);
  type == Type::kI64 ? vpsubq(out, zero, a) : vpsubd(out, zero, a);
}

void Emitter::EmitAbs(ValueId id) {
  const Type type = kernel_[id].type;
  const Xbyak::Xmm a = Reg(kernel_[id].args[0]);
  const Xbyak::Xmm t = Vector(kScratch0, type), out = Define(id);
  if (type == Type::kF32) return vandps(out, a, Pool(0x7fffffff, false, Bits(type)));
  if (type == Type::kF64) return vandpd(out, a, Pool(~0ull >> 1, true, Bits(type)));
  if (type == Type::kI32) return vpabsd(out, a);
  if (out.isZMM()) return vpabsq(out, a);
  vpxor(t, t, t);
  vpcmpgtq(t, t, a);  // sign
  vpxor(out, a, t);
  vpsubq(out, out, t);
}

// out = a op b. For min and max `out` may be `a`, but not another operand; both scratch registers are used.
void Emitter::Combine(Op op, Type type, const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Operand& b) {
  switch (op) {
    case Op::kAdd:
    case Op::kReduceSum:
    case Op::kScanSum:
      switch (type) {
        case Type::kF32:
          return vaddps(out, a, b);
        case Type::kF64:
          return vaddpd(out, a, b);
        case Type::kI64:
          return vpaddq(out, a, b);
        case Type::kI32:
        case Type::kPred:
          return vpaddd(out, a, b);
      }
      return;
    case Op::kSub:
      switch (type) {
        case Type::kF32:
          return vsubps(out, a, b);
        case Type::kF64:
          return vsubpd(out, a, b);
        case Type::kI64:
          return vpsubq(out, a, b);
        case Type::kI32:
        case Type::kPred:
          return vpsubd(out, a, b);
      }
      return;
    case Op::kMul:
    case Op::kReduceProd:
      switch (type) {
        case Type::kF32:
          return vmulps(out, a, b);
        case Type::kF64:
          return vmulpd(out, a, b);
        case Type::kI32:
        case Type::kPred:
          return vpmulld(out, a, b);
        case Type::kI64:
          FF_CHECK(false) << "Multiply64 is for these";
      }
      return;
    case Op::kDiv:
      return type == Type::kF64 ? vdivpd(out, a, b) : vdivps(out, a, b);
    case Op::kMin:
    case Op::kMax:
    case Op::kMinRaw:
    case Op::kMaxRaw:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kReduceMaxRaw:
      return MinMax(op, type, out, a, b);
    default:
      FF_CHECK(false) << kernel_ir::Name(op) << " does not combine two values";
  }
}

void Emitter::MinMax(Op op, Type type, const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Operand& b) {
  const bool max = op == Op::kMax || op == Op::kMaxRaw || op == Op::kReduceMax || op == Op::kReduceMaxRaw;
  const bool raw = op == Op::kMaxRaw || op == Op::kMinRaw || op == Op::kReduceMaxRaw;
  const Xbyak::Xmm t = Vector(kScratch1, type), nan = Vector(kScratch0, type);
  switch (type) {
    case Type::kF32:
      if (raw) return max ? vmaxps(out, a, b) : vminps(out, a, b);
      // vmaxps gives b if either is NaN; where a is, it is taken itself (see NaNsAreShort).
      max ? vmaxps(t, a, b) : vminps(t, a, b);
      if (out.isZMM()) return vcmpps(k2, a, a, 3), vblendmps(out | k2, t, a);
      vcmpps(nan, a, a, 3);
      return vblendvps(out, t, a, nan);
    case Type::kF64:
      if (raw) return max ? vmaxpd(out, a, b) : vminpd(out, a, b);
      max ? vmaxpd(t, a, b) : vminpd(t, a, b);
      if (out.isZMM()) return vcmppd(k2, a, a, 3), vblendmpd(out | k2, t, a);
      vcmppd(nan, a, a, 3);
      return vblendvpd(out, t, a, nan);
    case Type::kI64:
      if (out.isZMM()) return max ? vpmaxsq(out, a, b) : vpminsq(out, a, b);
      vpcmpgtq(t, a, b);  // a > b
      if (!max) vpxor(t, t, PoolI(Type::kI64, -1));
      if (b.isMEM()) {
        const Xbyak::Xmm other = Vector(kScratch0, type);
        vmovups(other, static_cast<const Xbyak::Address&>(b));
        return vblendvpd(out, other, a, t);
      }
      return vblendvpd(out, static_cast<const Xbyak::Xmm&>(b), a, t);
    case Type::kPred:
      return max ? vorps(out, a, b) : vandps(out, a, b);
    case Type::kI32:
      return max ? vpmaxsd(out, a, b) : vpminsd(out, a, b);
  }
}

void Emitter::Multiply64(const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Xmm& b) {
  if (out.isZMM()) return vpmullq(out, a, b);
  const Xbyak::Xmm t = Xbyak::Ymm(kScratch0), u = Xbyak::Ymm(kScratch1);
  vpsrlq(t, a, 32);
  vpmuludq(t, t, b);
  vpsrlq(u, b, 32);
  vpmuludq(u, u, a);
  vpaddq(t, t, u);
  vpsllq(t, t, 32);
  vpmuludq(out, a, b);
  vpaddq(out, out, t);
}

void Emitter::Rounding(ValueId id, int mode) {
  const Inst& inst = kernel_[id];
  const Operand a = Any(inst.args[0]);
  const Xbyak::Xmm out = Define(id);
  const auto imm = static_cast<std::uint8_t>(mode | 8);
  if (out.isZMM()) {
    inst.type == Type::kF64 ? vrndscalepd(out, a.get(), imm) : vrndscaleps(out, a.get(), imm);
    return;
  }
  inst.type == Type::kF64 ? vroundpd(out, a.get(), imm) : vroundps(out, a.get(), imm);
}

// a*b + c, over the operand that dies here if one does.
void Emitter::EmitFma(ValueId id) {
  const Inst& inst = kernel_[id];
  ValueId va = inst.args[0], vb = inst.args[1];
  const ValueId vc = inst.args[2];
  const bool f64 = inst.type == Type::kF64;
  const auto dying = [&](ValueId v) { return reg_of_[index(v)] >= 0 && DiesHere(v); };
  if (dying(vb) && !dying(va)) std::swap(va, vb);
  if (dying(vc) && vc != va && vc != vb) {
    const Xbyak::Xmm c = Reg(vc);
    if (reg_of_[index(va)] < 0) std::swap(va, vb);
    const Xbyak::Xmm a = Reg(va);
    const Operand b = Any(vb);
    Release(c.getIdx());
    Bind(id, c.getIdx());
    f64 ? vfmadd231pd(c, a, b.get()) : vfmadd231ps(c, a, b.get());
    return;
  }
  if (dying(va) && va != vb && va != vc) {
    const Xbyak::Xmm a = Reg(va);
    const bool memory_c = reg_of_[index(vc)] < 0;
    if (memory_c) {
      const Xbyak::Xmm b = Reg(vb);
      const Operand c = Any(vc);
      Release(a.getIdx());
      Bind(id, a.getIdx());
      f64 ? vfmadd213pd(a, b, c.get()) : vfmadd213ps(a, b, c.get());
    } else {
      const Xbyak::Xmm c = Reg(vc);
      const Operand b = Any(vb);
      Release(a.getIdx());
      Bind(id, a.getIdx());
      f64 ? vfmadd132pd(a, c, b.get()) : vfmadd132ps(a, c, b.get());
    }
    return;
  }
  if (reg_of_[index(va)] < 0) std::swap(va, vb);
  const Xbyak::Xmm a = Reg(va);
  const Operand b = Any(vb);
  const Operand c = Any(vc);
  const Xbyak::Xmm out = DefineEarly(id);
  Move(out, c.get());
  f64 ? vfmadd231pd(out, a, b.get()) : vfmadd231ps(out, a, b.get());
}

void Emitter::EmitSelect(ValueId id) {
  const Inst& inst = kernel_[id];
  const Xbyak::Xmm condition = Reg(inst.args[0]);
  const Operand yes = Any(inst.args[1]);
  const Xbyak::Xmm no = Reg(inst.args[2]);
  if (Bits(inst.type) == 512) {
    const Xbyak::Xmm out = Define(id);
    vpmovd2m(k2, condition);
    kernel_ir::Is64Bit(inst.type) ? vblendmpd(out | k2, no, yes.get()) : vblendmps(out | k2, no, yes.get());
    return;
  }
  if (kernel_ir::Is64Bit(inst.type) && wide_) {
    const Xbyak::Ymm wide(kScratch0);
    vpmovsxdq(wide, condition);
    const Xbyak::Xmm out = Define(id);
    return vblendvpd(out, no, yes.get(), wide);
  }
  const Xbyak::Xmm out = Define(id);
  vblendvps(out, no, yes.get(), Vector(condition.getIdx(), inst.type));
}

int Emitter::FloatPredicate(Op op) { return op == Op::kLt ? 17 : op == Op::kLe ? 18 : op == Op::kEq ? 0 : 4; }

void Emitter::EmitCompare(ValueId id) {
  const Inst& inst = kernel_[id];
  const Type type = kernel_[inst.args[0]].type;
  const Xbyak::Xmm a = Reg(inst.args[0]);
  // Only greater-than exists for ints.
  const bool reversed = kernel_ir::IsInt(type) && inst.op == Op::kLt && Bits(type) != 512;
  const Operand b = reversed ? Operand{Reg(inst.args[1]), std::nullopt} : Any(inst.args[1]);
  const bool wide = kernel_ir::Is64Bit(type);
  const Xbyak::Xmm t = Vector(kScratch0, type);
  const Xbyak::Xmm out = Define(id);
  if (Bits(type) == 512) return CompareToMask(inst.op, type, out, a, b.get());
  const Xbyak::Xmm result = wide && wide_ ? t : Vector(out.getIdx(), type);
  if (kernel_ir::IsFloat(type)) {
    const int predicate = FloatPredicate(inst.op);
    wide ? vcmppd(result, a, b.get(), static_cast<std::uint8_t>(predicate))
         : vcmpps(result, a, b.get(), static_cast<std::uint8_t>(predicate));
  } else {
    switch (inst.op) {
      case Op::kLt:
        wide ? vpcmpgtq(result, *b.reg, a) : vpcmpgtd(result, *b.reg, a);
        break;
      case Op::kLe:
        wide ? vpcmpgtq(result, a, b.get()) : vpcmpgtd(result, a, b.get());
        break;
      case Op::kEq:
      case Op::kNe:
        wide ? vpcmpeqq(result, a, b.get()) : vpcmpeqd(result, a, b.get());
        break;
      default:
        FF_CHECK(false) << kernel_ir::Name(inst.op) << " compares nothing";
    }
    if (inst.op == Op::kLe || inst.op == Op::kNe) vpxor(result, result, PoolI(type, -1));
  }
  if (wide && wide_) {
    Narrow(out, t);
  } else if (Bits(Type::kPred) != Bits(type)) {
    vpbroadcastd(out, Xbyak::Xmm(out.getIdx()));  // uniform
  }
}

void Emitter::CompareToMask(Op op, Type type, const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Operand& b) {
  const bool wide = kernel_ir::Is64Bit(type);
  if (kernel_ir::IsFloat(type)) {
    const auto predicate = static_cast<std::uint8_t>(FloatPredicate(op));
    wide ? vcmppd(k2, a, b, predicate) : vcmpps(k2, a, b, predicate);
  } else {
    const std::uint8_t predicate = op == Op::kLt ? 1 : op == Op::kLe ? 2 : op == Op::kEq ? 0 : 4;
    wide ? vpcmpq(k2, a, b, predicate) : vpcmpd(k2, a, b, predicate);
  }
  vpmovm2d(out, k2);
}

void Emitter::EmitBits(ValueId id) {
  const Inst& inst = kernel_[id];
  const bool wide = kernel_ir::Is64Bit(inst.type);
  const Xbyak::Xmm a = Reg(inst.args[0]);
  if (inst.op == Op::kBitcast) {
    Move(Define(id), a);
    return;
  }
  if (inst.op == Op::kAnd || inst.op == Op::kOr || inst.op == Op::kXor) {
    const Operand b = Any(inst.args[1]);
    const Xbyak::Xmm out = Define(id);
    if (inst.op == Op::kAnd) return vandps(out, a, b.get());
    return inst.op == Op::kOr ? vorps(out, a, b.get()) : vxorps(out, a, b.get());
  }
  const auto n = static_cast<std::uint8_t>(inst.imm);
  const Xbyak::Xmm t = Vector(kScratch0, inst.type), out = Define(id);
  switch (inst.op) {
    case Op::kNot:
      return vxorps(out, a, PoolI(inst.type, -1));
    case Op::kShl:
      return wide ? vpsllq(out, a, n) : vpslld(out, a, n);
    case Op::kShr:
      if (!wide) return vpsrad(out, a, n);
      if (out.isZMM()) return vpsraq(out, a, n);
      // No 64-bit arithmetic shift: shift logically, then extend the sign.
      vpxor(t, t, t);
      vpcmpgtq(t, t, a);
      vpsllq(t, t, static_cast<std::uint8_t>(n == 0 ? 63 : 64 - n));
      if (n == 0) return Move(out, a);
      vpsrlq(out, a, n);
      return vpor(out, out, t);
    default:
      FF_CHECK(false) << kernel_ir::Name(inst.op) << " is no operation on bits";
  }
}

}  // namespace framefuse::emit
