// Kernel IR: op tables, builder, equality and levels. See kernel.h.
#include "backends/kernel_ir/kernel.h"

#include <algorithm>

namespace framefuse::kernel_ir {
namespace {

struct OpInfo {
  std::string_view text;
  int arity;
  OpClass cls;
};
constexpr OpInfo kOps[] = {
#define OP(name, text, arity, cls) {text, arity, OpClass::cls},
#include "backends/kernel_ir/ops.def"
#undef OP
};

Level OfLoad(const Kernel& kernel, const Buffer& buffer) {
  if (buffer.inner != Inner::kUniform) return Level::kElement;
  if (buffer.segmented) return Level::kSegment;
  return kernel.outer_rank == 0 && kernel.skeleton != Skeleton::kHorizontal ? Level::kKernel : Level::kRow;
}

}  // namespace

std::string_view Name(Op op) { return kOps[static_cast<int>(op)].text; }
int Arity(Op op) { return kOps[static_cast<int>(op)].arity; }
OpClass ClassOf(Op op) { return kOps[static_cast<int>(op)].cls; }

bool Kernel::SameBody(const Kernel& other) const {
  return skeleton == other.skeleton && outer_rank == other.outer_rank && segments == other.segments &&
         scratch_rows == other.scratch_rows && params == other.params && buffers == other.buffers &&
         insts == other.insts && blocks == other.blocks;
}

bool Kernel::Uses64Bit() const {
  const std::vector<Level> levels = ComputeLevels(*this);
  for (std::size_t i = 0; i < insts.size(); ++i) {
    // A reduction takes its operand element by element, be that the same value for all.
    const bool by_element = levels[i] == Level::kElement || ClassOf(insts[i].op) == OpClass::kReduce;
    if (by_element && Is64Bit(insts[i].type)) return true;
  }
  return false;
}

std::vector<Level> ComputeLevels(const Kernel& kernel) {
  std::vector<Level> levels(kernel.insts.size(), Level::kKernel);
  for (std::size_t i = 0; i < kernel.insts.size(); ++i) {
    const Inst& inst = kernel.insts[i];
    Level level = Level::kKernel;
    for (int a = 0; a < Arity(inst.op); ++a) level = std::max(level, levels[static_cast<std::size_t>(inst.args[a])]);
    switch (inst.op) {
      case Op::kIota:
      case Op::kScanSum:
      case Op::kScratchLoad:
      case Op::kScratchStore:
        level = Level::kElement;
        break;
      case Op::kLoad:
      case Op::kStore:
        level = std::max(level, OfLoad(kernel, kernel.buffers[static_cast<std::size_t>(inst.slot)]));
        break;
      case Op::kLoadAt:
      case Op::kRowIota:
        level = std::max(level, Level::kRow);
        break;
      case Op::kLoadFrom:
        level = std::max({level, Level::kRow, OfLoad(kernel, kernel.buffers[static_cast<std::size_t>(inst.slot)])});
        break;
      default:
        // A reduction is uniform in the row, in the column skeleton one value an inner point.
        if (ClassOf(inst.op) == OpClass::kReduce) {
          level = kernel.skeleton == Skeleton::kColumn ? Level::kElement : Level::kRow;
        }
    }
    levels[i] = level;
  }
  return levels;
}

namespace {

// What a scratch row was given, for its loads.
ValueId Behind(const Kernel& kernel, ValueId id) {
  if (kernel[id].op != Op::kScratchLoad) return id;
  for (const Inst& inst : kernel.insts) {
    if (inst.op == Op::kScratchStore && inst.slot == kernel[id].slot) return inst.args[0];
  }
  return id;
}

// Computed in the same way from the same elements.
bool Same(const Kernel& kernel, ValueId a, ValueId b) {
  a = Behind(kernel, a), b = Behind(kernel, b);
  if (a == b) return true;
  const Inst &x = kernel[a], &y = kernel[b];
  const OpClass cls = ClassOf(x.op);
  if (x.op != y.op || x.type != y.type || x.slot != y.slot || x.imm != y.imm || cls == OpClass::kReduce ||
      cls == OpClass::kScan)
    return false;
  if (cls == OpClass::kMemory && kernel.buffers[static_cast<std::size_t>(x.slot)].written) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Arity(x.op)); ++i) {
    if (!Same(kernel, x.args[i], y.args[i])) return false;
  }
  return true;
}

}  // namespace

bool RoundingHidesErrors(const Kernel& kernel) {
  const auto is_half = [](DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; };
  return std::all_of(kernel.buffers.begin(), kernel.buffers.end(),
                     [&](const Buffer& b) { return !b.written || is_half(b.dtype); }) &&
         std::none_of(kernel.insts.begin(), kernel.insts.end(),
                      [&](const Inst& inst) { return inst.op == Op::kWrap && is_half(static_cast<DType>(inst.imm)); });
}

bool IsBelowRowMax(const Kernel& kernel, ValueId id) {
  id = Behind(kernel, id);
  if (kernel[id].op != Op::kSub) return false;
  const Inst& most = kernel[kernel[id].args[1]];
  return (most.op == Op::kReduceMax || most.op == Op::kReduceMaxRaw) && Same(kernel, kernel[id].args[0], most.args[0]);
}

int Builder::AddBuffer(DType dtype, bool written, Inner inner, bool segmented) {
  kernel_.buffers.push_back({dtype, written, inner, segmented});
  return static_cast<int>(kernel_.buffers.size()) - 1;
}

int Builder::AddParam(Type type) {
  kernel_.params.push_back(type);
  return static_cast<int>(kernel_.params.size()) - 1;
}

ValueId Builder::Emit(Op op, Type type, std::initializer_list<ValueId> args, int slot, std::uint64_t imm) {
  Inst inst{op, type, {kNoValue, kNoValue, kNoValue}, slot, imm};
  std::copy(args.begin(), args.end(), inst.args.begin());
  kernel_.insts.push_back(inst);
  const auto id = static_cast<ValueId>(kernel_.insts.size()) - 1;
  if (kernel_.blocks.empty()) Begin(BlockKind::kLoop);
  kernel_.blocks.back().code.push_back(id);
  return id;
}

ValueId Builder::Const(Type type, double value) {
  if (!IsFloat(type)) return ConstInt(type, static_cast<std::int64_t>(value));
  return Emit(Op::kConst, type, {}, -1, std::bit_cast<std::uint64_t>(value));
}

ValueId Builder::ConstInt(Type type, std::int64_t value) {
  if (IsFloat(type)) return Const(type, static_cast<double>(value));
  return Emit(Op::kConst, type, {}, -1, static_cast<std::uint64_t>(value));
}

ValueId Builder::Load(int buffer) {
  return Emit(Op::kLoad, ComputeType(kernel_.buffers[static_cast<std::size_t>(buffer)].dtype), {}, buffer);
}

ValueId Builder::LoadAt(int buffer, ValueId index) {
  return Emit(Op::kLoadAt, ComputeType(kernel_.buffers[static_cast<std::size_t>(buffer)].dtype), {index}, buffer);
}

bool Builder::IsRounded(DType dtype, ValueId value) const {
  const Inst& inst = kernel_[value];
  if (inst.op == Op::kWrap) return inst.imm == static_cast<std::uint64_t>(dtype);
  if (inst.op == Op::kConst) return inst.imm == 0;
  if (inst.op == Op::kMax || inst.op == Op::kMin) {
    return IsRounded(dtype, inst.args[0]) && IsRounded(dtype, inst.args[1]);
  }
  return (inst.op == Op::kLoad || inst.op == Op::kLoadAt || inst.op == Op::kLoadFrom) &&
         kernel_.buffers[static_cast<std::size_t>(inst.slot)].dtype == dtype;
}

ValueId Builder::LoadFrom(int buffer, ValueId elements) {
  return Emit(Op::kLoadFrom, ComputeType(kernel_.buffers[static_cast<std::size_t>(buffer)].dtype), {elements}, buffer);
}

void Builder::Store(int buffer, ValueId value) { Emit(Op::kStore, TypeOf(value), {value}, buffer); }

ValueId Builder::Binary(Op op, ValueId a, ValueId b) { return Emit(op, TypeOf(a), {a, b}); }
ValueId Builder::Unary(Op op, ValueId a) { return Emit(op, TypeOf(a), {a}); }
ValueId Builder::Compare(Op op, ValueId a, ValueId b) { return Emit(op, Type::kPred, {a, b}); }
ValueId Builder::Select(ValueId condition, ValueId a, ValueId b) {
  return Emit(Op::kSelect, TypeOf(a), {condition, a, b});
}
ValueId Builder::Cast(Type to, ValueId value) {
  const Inst inst = kernel_[value];
  if (inst.type == to) return value;
  if (inst.op == Op::kConst && to != Type::kPred && inst.type != Type::kPred) {
    if (IsFloat(inst.type) && IsFloat(to)) return Const(to, std::bit_cast<double>(inst.imm));
    if (IsInt(inst.type)) return ConstInt(to, static_cast<std::int64_t>(inst.imm));
  }
  return Emit(Op::kCast, to, {value});
}

}  // namespace framefuse::kernel_ir
