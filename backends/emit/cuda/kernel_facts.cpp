#include "backends/emit/cuda/kernel_facts.h"

#include <bit>

namespace framefuse::emit {

KernelFacts::KernelFacts(const Kernel& kernel, const CudaForm& form)
    : k_(kernel), f_(form), at_(kernel, form), levels_(ComputeLevels(kernel)) {
  for (const Inst& inst : k_.insts) {
    if (inst.op == Op::kScratchStore) scratch_[inst.slot] = inst.args[0];
  }
}

bool KernelFacts::StoresElements() const {
  for (const Block& block : k_.blocks) {
    for (ValueId id : block.code) {
      if (inst(id).op != Op::kStore || level(id) != Level::kElement) continue;
      if (k_.skeleton != Skeleton::kColumn || &block == &k_.blocks.front()) return true;
    }
  }
  return false;
}

std::string_view KernelFacts::ShortFunction(ValueId id) const {
  const Inst& in = inst(id);
  if (in.type != kernel_ir::Type::kF32) return {};
  if (in.op == Op::kExp && OnlySummedBesideOne(id)) return "exp_beside_one";
  if (in.op == Op::kTanh && in.imm == kernel_ir::kToBFloat16) return "tanh_for_bf16";
  return f_.half || in.imm != 0 ? ForHalf(id) : std::string_view();
}

// Where a half is made: what is exact to a few of its roundings.
std::string_view KernelFacts::ForHalf(ValueId id) const {
  switch (inst(id).op) {
    case Op::kExp:
      return "exp_for_half";
    case Op::kExpm1:
      return "expm1_for_half";
    case Op::kLog:
      return "log_for_half";
    case Op::kLog1p:
      return "log1p_for_half";
    case Op::kSigmoid:
      return "sigmoid_for_half";
    case Op::kTanh:
      return OnlyBesideOne(id) ? "tanh_beside_one" : "tanh_for_half";
    case Op::kErf:
      return OnlyBesideOne(id) ? "erf_beside_one" : "erf_for_half";
    case Op::kReciprocal:
      return "reciprocal_for_half";
    case Op::kSqrt:
      return "sqrt_for_half";
    case Op::kDiv:
      return "divide_for_half";
    default:
      return {};
  }
}

// The largest term of the sum is e^0.
bool KernelFacts::OnlySummedBesideOne(ValueId id) const {
  if (!kernel_ir::IsBelowRowMax(k_, inst(id).args[0])) return false;
  for (const Inst& user : k_.insts) {
    for (int i = 0; i < kernel_ir::Arity(user.op); ++i) {
      if (user.args[static_cast<std::size_t>(i)] == id && user.op != Op::kReduceSum) return false;
    }
  }
  return true;
}

// Every use adds 1, so that what is small beside 1 does not count.
bool KernelFacts::OnlyBesideOne(ValueId id) const {
  for (const Inst& user : k_.insts) {
    for (int i = 0; i < kernel_ir::Arity(user.op); ++i) {
      if (user.args[static_cast<std::size_t>(i)] != id) continue;
      if (user.op != Op::kAdd || !IsOne(user.args[static_cast<std::size_t>(1 - i)])) return false;
    }
  }
  return true;
}

bool KernelFacts::IsOne(ValueId id) const {
  return inst(id).op == Op::kConst && inst(id).type == kernel_ir::Type::kF32 &&
         inst(id).imm == std::bit_cast<std::uint64_t>(1.0);
}

std::vector<kernel_ir::ValueId> KernelFacts::WithScratch(const std::vector<ValueId>& values) const {
  std::set<ValueId> need(values.begin(), values.end());
  if (KeepsScratch()) return {need.begin(), need.end()};
  std::vector<ValueId> open;
  const auto follow = [&](ValueId id) {
    if (inst(id).op == Op::kScratchLoad) open.push_back(scratch_.at(inst(id).slot));
  };
  for (ValueId id : values) follow(id);
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (level(id) != Level::kElement || IsReduce(id) || !need.insert(id).second) continue;
    follow(id);
    for (int i = 0; i < kernel_ir::Arity(inst(id).op); ++i) open.push_back(inst(id).args[static_cast<std::size_t>(i)]);
  }
  return {need.begin(), need.end()};
}

std::vector<kernel_ir::ValueId> KernelFacts::ElementsOf(const Block& block) const {
  std::vector<ValueId> out;
  for (ValueId id : block.code) {
    if (IsElement(id) || (inst(id).op == Op::kStore && k_.skeleton != Skeleton::kRow)) out.push_back(id);
  }
  return WithScratch(out);
}

std::vector<kernel_ir::ValueId> KernelFacts::SegmentValuesOf(const Block& block) const {
  const auto of_segment = [&](ValueId id) { return level(id) == Level::kSegment && !IsReduce(id); };
  std::set<ValueId> values;
  std::vector<ValueId> open = ElementsOf(block);
  for (ValueId id : block.code) {
    if (of_segment(id) && values.insert(id).second) open.push_back(id);
  }
  while (!open.empty()) {
    const Inst& in = inst(open.back());
    open.pop_back();
    for (int i = 0; i < kernel_ir::Arity(in.op); ++i) {
      const ValueId arg = in.args[static_cast<std::size_t>(i)];
      if (of_segment(arg) && values.insert(arg).second) open.push_back(arg);
    }
  }
  return {values.begin(), values.end()};
}

std::set<int> KernelFacts::VectorReads(const std::vector<ValueId>& values) const {
  std::set<int> out;
  for (ValueId id : values) {
    if (inst(id).op == Op::kLoad && IsVector(inst(id).slot)) out.insert(inst(id).slot);
  }
  return out;
}

std::set<int> KernelFacts::HeldBuffers() const {
  std::map<int, int> loops;
  bool first = true;
  for (const Block& block : k_.blocks) {
    if (block.kind != BlockKind::kLoop) continue;
    for (int b : VectorReads(ElementsOf(block))) loops[b] += first ? 2 : 1;
    first = false;
  }
  std::set<int> held;
  for (const auto& [b, count] : loops) {
    if (count >= 2) held.insert(b);
  }
  return held;
}

std::vector<kernel_ir::ValueId> KernelFacts::EarlyValues() const {
  std::set<ValueId> early;
  for (std::size_t n = 0; n < k_.insts.size(); ++n) {
    const auto id = static_cast<ValueId>(n);
    const Inst& in = inst(id);
    if (level(id) != Level::kRow || IsReduce(id) || in.op == Op::kStore) continue;
    bool waits = false;
    for (int i = 0; i < kernel_ir::Arity(in.op); ++i) {
      const ValueId arg = in.args[static_cast<std::size_t>(i)];
      waits = waits || (level(arg) != Level::kKernel && !early.contains(arg));
    }
    if (!waits) early.insert(id);
  }
  return {early.begin(), early.end()};
}

}  // namespace framefuse::emit
