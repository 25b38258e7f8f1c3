// Text form of a kernel.
#include <cmath>
#include <cstdio>

#include "backends/kernel_ir/kernel.h"

namespace framefuse::kernel_ir {
namespace {

constexpr std::string_view kSkeletons[] = {"pointwise", "row", "column", "transposed", "horizontal"};
constexpr std::string_view kInners[] = {"uniform", "contiguous", "strided", "transposed"};

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  if (std::strtod(text, nullptr) != value) std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string SlotText(const Inst& inst) {
  switch (inst.op) {
    case Op::kParam:
      return " p" + std::to_string(inst.slot);
    case Op::kScratchLoad:
    case Op::kScratchStore:
      return " s" + std::to_string(inst.slot);
    default:
      return " b" + std::to_string(inst.slot);
  }
}

std::string InstText(const Kernel& kernel, ValueId id) {
  const Inst& inst = kernel[id];
  std::string out;
  if (inst.op != Op::kStore && inst.op != Op::kScratchStore) {
    out = "%" + std::to_string(id) + ": " + std::string(Name(inst.type)) + " = ";
  }
  out += Name(inst.op);
  if (inst.slot >= 0) out += SlotText(inst);
  for (int a = 0; a < Arity(inst.op); ++a) {
    out += (a > 0 || inst.slot >= 0 ? ", %" : " %") + std::to_string(inst.args[static_cast<std::size_t>(a)]);
  }
  if (inst.op == Op::kConst) {
    out += ' ';
    out += IsFloat(inst.type) ? FloatText(std::bit_cast<double>(inst.imm))
                              : std::to_string(static_cast<std::int64_t>(inst.imm));
  } else if (inst.op == Op::kShl || inst.op == Op::kShr) {
    out += ", " + std::to_string(inst.imm);
  } else if (inst.op == Op::kWrap) {
    out += ", " + std::string(Name(static_cast<DType>(inst.imm)));
  } else if (ClassOf(inst.op) == OpClass::kMath && inst.imm != 0) {
    out += ", for " + std::string(Name(inst.imm == kToBFloat16 ? DType::kBF16 : DType::kF16));
  }
  return out;
}

}  // namespace

std::string Print(const Kernel& kernel) {
  std::string out(kSkeletons[static_cast<int>(kernel.skeleton)]);
  out += " rank=" + std::to_string(kernel.outer_rank);
  if (kernel.segments) out += " segments";
  if (kernel.scratch_rows > 0) out += " scratch=" + std::to_string(kernel.scratch_rows);
  out += " {\n";
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    out += "  p" + std::to_string(i) + ": " + std::string(Name(kernel.params[i])) + "\n";
  }
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& b = kernel.buffers[i];
    out += "  b" + std::to_string(i) + ": " + std::string(Name(b.dtype)) + (b.written ? " out " : " in ");
    out += kInners[static_cast<int>(b.inner)];
    out += b.segmented ? " segmented\n" : "\n";
  }
  for (const Block& block : kernel.blocks) {
    out += block.kind == BlockKind::kLoop ? "  loop\n" : "  once\n";
    for (ValueId id : block.code) out += "    " + InstText(kernel, id) + "\n";
  }
  return out + "}\n";
}

}  // namespace framefuse::kernel_ir
