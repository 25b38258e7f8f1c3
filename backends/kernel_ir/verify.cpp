// Checks a kernel: operands defined before use, slots in range, types fit, reductions and stores at a level that
// the emitters can place.
#include <optional>

#include "absl/strings/str_cat.h"
#include "backends/kernel_ir/abi.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::kernel_ir {
namespace {

std::string TypeError(const Kernel& kernel, const Inst& inst) {
  const auto type = [&](int a) { return kernel[inst.args[static_cast<std::size_t>(a)]].type; };
  switch (ClassOf(inst.op)) {
    case OpClass::kLeaf:
      return (inst.op == Op::kIota || inst.op == Op::kRowIota) && !IsInt(inst.type) ? "not an int" : "";
    case OpClass::kMemory:
      if (inst.op == Op::kLoadAt || inst.op == Op::kLoadFrom) return type(0) == Type::kI64 ? "" : "index is not i64";
      return Arity(inst.op) == 0 || type(0) == inst.type ? "" : "stored type differs";
    case OpClass::kArith:
      if (inst.op == Op::kSelect) {
        if (type(0) != Type::kPred) return "condition is not pred";
        return type(1) == inst.type && type(2) == inst.type ? "" : "branch types differ";
      }
      if (inst.op == Op::kInRange && inst.type != Type::kI64) return "index is not i64";
      break;
    case OpClass::kCompare:
      if (inst.type != Type::kPred) return "result is not pred";
      return type(0) == type(1) ? "" : "operand types differ";
    case OpClass::kBits:
      if (inst.op == Op::kBitcast) return Is64Bit(type(0)) == Is64Bit(inst.type) ? "" : "widths differ";
      break;
    case OpClass::kConvert:
      return inst.op == Op::kWrap && type(0) != inst.type ? "wrap changes the type" : "";
    case OpClass::kMath:
      if (!IsFloat(inst.type)) return "float only";
      break;
    case OpClass::kReduce:
    case OpClass::kScan:
      if (inst.type == Type::kPred) return "reduction of pred";
      break;
  }
  for (int a = 0; a < Arity(inst.op); ++a) {
    if (type(a) != inst.type) return "operand types differ";
  }
  if ((inst.op == Op::kDiv || inst.op == Op::kFma) && !IsFloat(inst.type)) return "float only";
  return "";
}

std::string SlotError(const Kernel& kernel, const Inst& inst) {
  const auto in = [&](std::size_t n) { return inst.slot >= 0 && static_cast<std::size_t>(inst.slot) < n; };
  switch (inst.op) {
    case Op::kParam:
      return in(kernel.params.size()) ? "" : "no such parameter";
    case Op::kScratchLoad:
    case Op::kScratchStore:
      return in(static_cast<std::size_t>(kernel.scratch_rows)) ? "" : "no such scratch row";
    case Op::kLoad:
    case Op::kLoadAt:
    case Op::kLoadFrom:
    case Op::kStore: {
      if (!in(kernel.buffers.size())) return "no such buffer";
      const Buffer& b = kernel.buffers[static_cast<std::size_t>(inst.slot)];
      if ((inst.op == Op::kStore) != b.written) return "buffer is not of that direction";
      return ComputeType(b.dtype) == inst.type ? "" : "type differs from the buffer's";
    }
    default:
      return "";
  }
}

std::string PlaceError(const Kernel& kernel, const Inst& inst, BlockKind kind, const std::vector<Level>& levels) {
  const auto arg_level = [&] { return levels[static_cast<std::size_t>(inst.args[0])]; };
  if (inst.op == Op::kRowIota && kernel.skeleton != Skeleton::kColumn) return "there are no rows that are reduced";
  if (inst.op == Op::kLoadFrom) {
    if (kernel.skeleton != Skeleton::kPointwise && kernel.skeleton != Skeleton::kRow) return "not in this skeleton";
    if (arg_level() > Level::kRow) return "the place is not one for the row";
  }
  if (ClassOf(inst.op) == OpClass::kScan) {
    if (kernel.skeleton != Skeleton::kRow && kernel.skeleton != Skeleton::kColumn) return "not in this skeleton";
    if (kernel.segments) return "a scan over segments";
  }
  if (ClassOf(inst.op) == OpClass::kReduce || ClassOf(inst.op) == OpClass::kScan)
    return kind == BlockKind::kLoop ? "" : "reduction outside a loop";
  if (inst.op == Op::kStore && kernel.skeleton != Skeleton::kColumn) {
    const bool uniform = kernel.buffers[static_cast<std::size_t>(inst.slot)].inner == Inner::kUniform;
    if (uniform && arg_level() == Level::kElement) return "element stored in a uniform buffer";
    if (!uniform && kind == BlockKind::kOnce) return "element store outside a loop";
  }
  if (kind == BlockKind::kOnce && Arity(inst.op) > 0 && kernel.skeleton != Skeleton::kColumn) {
    if (arg_level() == Level::kElement) return "element used outside a loop";
  }
  return "";
}

}  // namespace

int ScratchRowCount(const Kernel& kernel) {
  int rows = kernel.scratch_rows;
  if (kernel.skeleton == Skeleton::kColumn) {
    for (const Inst& inst : kernel.insts)
      rows += ClassOf(inst.op) == OpClass::kReduce || ClassOf(inst.op) == OpClass::kScan;
  }
  return rows;
}

absl::Status Verify(const Kernel& kernel) {
  const std::vector<Level> levels = ComputeLevels(kernel);
  std::vector<int> defined_in(kernel.insts.size(), -1);
  for (std::size_t b = 0; b < kernel.blocks.size(); ++b) {
    const Block& block = kernel.blocks[b];
    for (ValueId id : block.code) {
      const auto fail = [&](std::string_view why) {
        return absl::InternalError(absl::StrCat("kernel ", kernel.name, " %", id, " ", std::string(Name(kernel[id].op)),
                                                ": ", std::string(why)));
      };
      if (id < 0 || static_cast<std::size_t>(id) >= kernel.insts.size()) return fail("no such instruction");
      const Inst& inst = kernel[id];
      for (int a = 0; a < Arity(inst.op); ++a) {
        const ValueId arg = inst.args[static_cast<std::size_t>(a)];
        if (arg < 0 || arg >= id || defined_in[static_cast<std::size_t>(arg)] < 0) return fail("operand not defined");
        const bool elsewhere = defined_in[static_cast<std::size_t>(arg)] != static_cast<int>(b);
        const bool reduction = ClassOf(kernel[arg].op) == OpClass::kReduce;
        if (reduction && !elsewhere) return fail("reduction used in its own loop");
        if (elsewhere && !reduction && levels[static_cast<std::size_t>(arg)] == Level::kElement) {
          return fail("element value used in another block");
        }
      }
      if (std::string e = TypeError(kernel, inst); !e.empty()) return fail(e);
      if (std::string e = SlotError(kernel, inst); !e.empty()) return fail(e);
      if (std::string e = PlaceError(kernel, inst, block.kind, levels); !e.empty()) return fail(e);
      defined_in[static_cast<std::size_t>(id)] = static_cast<int>(b);
    }
  }
  return absl::OkStatus();
}

}  // namespace framefuse::kernel_ir
