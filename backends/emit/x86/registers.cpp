// Registers within one straight line of code. See emitter.h.
#include <algorithm>
#include <limits>

#include "backends/emit/x86/emitter.h"

namespace framefuse::emit {

using kernel_ir::Arity;
using kernel_ir::kNoValue;

void Emitter::BeginSequence(const Sequence& sequence) {
  for (ValueId v : touched_) {
    uses_[index(v)].clear();
    reg_of_[index(v)] = -1;
  }
  touched_.clear();
  owner_.fill(kNoValue);
  pinned_.fill(false);
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const Inst& inst = kernel_[sequence[i]];
    touched_.push_back(sequence[i]);
    home_valid_[index(sequence[i])] = false;
    for (int a = 0; a < Arity(inst.op); ++a) {
      const ValueId v = inst.args[static_cast<std::size_t>(a)];
      if (uses_[index(v)].empty()) touched_.push_back(v);
      uses_[index(v)].push_back(static_cast<std::uint32_t>(i));
    }
  }
  for (const auto& [v, reg] : fixed_reg_) {
    reg_of_[index(v)] = reg;
    touched_.push_back(v);
  }
}

void Emitter::ChooseRegisters(const Sequence& sequence) {
  const auto is_wide = [&](ValueId v) { return kernel_ir::Is64Bit(kernel_[v].type); };
  many_ = evex_ && !wide_;
  for (ValueId id : sequence) {
    many_ = many_ && !is_wide(id);
    for (int a = 0; a < Arity(kernel_[id].op); ++a)
      many_ = many_ && !is_wide(kernel_[id].args[static_cast<std::size_t>(a)]);
  }
}

void Emitter::RunSequence(const Sequence& sequence, const Point& point) {
  ChooseRegisters(sequence);
  BeginSequence(sequence);
  for (position_ = 0; position_ < sequence.size(); ++position_) {
    const ValueId id = sequence[position_];
    pinned_.fill(false);
    Point own = point;
    if (const int copy = copies_[index(id)].number; copy > 0) {
      (kernel_.skeleton == kernel_ir::Skeleton::kTransposed ? own.row : own.copy) = copy;
    }
    EmitInst(id, own);
    ReleaseDead(kernel_[id]);
    const int reg = reg_of_[index(id)];
    if (reg < 0) continue;
    if (crosses_[index(id)]) {
      vmovups(Home(id), Vector(reg, kernel_[id].type));
      home_valid_[index(id)] = true;
    }
    if (NextUse(id) == std::numeric_limits<std::size_t>::max() && !fixed_[static_cast<std::size_t>(reg)]) Release(reg);
  }
}

// Position of the first use after the current instruction.
std::size_t Emitter::NextUse(ValueId v) const {
  const auto& uses = uses_[index(v)];
  const auto next = std::upper_bound(uses.begin(), uses.end(), position_);
  return next == uses.end() ? std::numeric_limits<std::size_t>::max() : *next;
}

bool Emitter::DiesHere(ValueId v) const {
  return !fixed_reg_.contains(v) && NextUse(v) == std::numeric_limits<std::size_t>::max();
}

int Emitter::TakeRegister() {
  int best = -1;
  std::size_t farthest = 0;
  for (int r = 0; r < kRegisters; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (!IsForValues(r) || fixed_[i] || pinned_[i]) continue;
    if (owner_[i] == kNoValue) return r;
    const std::size_t next = NextUse(owner_[i]);
    if (best < 0 || next > farthest) best = r, farthest = next;
  }
  const ValueId victim = owner_[static_cast<std::size_t>(best)];
  if (!IsConst(victim) && !home_valid_[index(victim)]) {
    vmovups(Home(victim), Vector(best, kernel_[victim].type));
    home_valid_[index(victim)] = true;
  }
  Release(best);
  return best;
}

void Emitter::Bind(ValueId v, int reg) {
  owner_[static_cast<std::size_t>(reg)] = v;
  reg_of_[index(v)] = reg;
  pinned_[static_cast<std::size_t>(reg)] = true;
}

void Emitter::Release(int reg) {
  const auto i = static_cast<std::size_t>(reg);
  if (owner_[i] != kNoValue && reg_of_[index(owner_[i])] == reg) reg_of_[index(owner_[i])] = -1;
  owner_[i] = kNoValue;
}

void Emitter::ReleaseDead(const Inst& inst) {
  for (int a = 0; a < Arity(inst.op); ++a) {
    const ValueId v = inst.args[static_cast<std::size_t>(a)];
    const int reg = reg_of_[index(v)];
    if (reg >= 0 && DiesHere(v) && owner_[static_cast<std::size_t>(reg)] == v) Release(reg);
  }
}

Xbyak::Address Emitter::Home(ValueId v) {
  const Copy& copy = copies_[index(v)];
  if (IsPerRow(copy.of)) return RowHome(copy.of, copy.number);
  if (home_[index(v)] < 0) home_[index(v)] = NewSlot();
  return Stack(home_[index(v)], Bits(kernel_[v].type));
}

Xbyak::Xmm Emitter::Reg(ValueId v) {
  const Type type = kernel_[v].type;
  if (reg_of_[index(v)] < 0) {
    const int reg = TakeRegister();
    Move(Vector(reg, type), IsConst(v) ? ConstAddress(kernel_[v]) : Home(v));
    Bind(v, reg);
  }
  const int reg = reg_of_[index(v)];
  pinned_[static_cast<std::size_t>(reg)] = true;
  return Vector(reg, type);
}

Emitter::Operand Emitter::Any(ValueId v) {
  if (reg_of_[index(v)] >= 0) return {Reg(v), std::nullopt};
  return {std::nullopt, IsConst(v) ? ConstAddress(kernel_[v]) : Home(v)};
}

Xbyak::Xmm Emitter::Define(ValueId v) {
  const Inst& inst = kernel_[v];
  for (int a = 0; a < Arity(inst.op); ++a) {
    const ValueId arg = inst.args[static_cast<std::size_t>(a)];
    const int reg = reg_of_[index(arg)];
    if (reg >= 0 && DiesHere(arg) && owner_[static_cast<std::size_t>(reg)] == arg) {
      Release(reg);
      Bind(v, reg);
      return Vector(reg, inst.type);
    }
  }
  return DefineEarly(v);
}

Xbyak::Xmm Emitter::DefineEarly(ValueId v) {
  const int reg = TakeRegister();
  Bind(v, reg);
  return Vector(reg, kernel_[v].type);
}

// Before a call: what is needed later goes home.
void Emitter::SpillAll() {
  for (int r = 0; r < kRegisters; ++r) {
    const ValueId v = owner_[static_cast<std::size_t>(r)];
    if (v == kNoValue) continue;
    if (!IsConst(v) && !home_valid_[index(v)] && NextUse(v) != std::numeric_limits<std::size_t>::max()) {
      vmovups(Home(v), Vector(r, kernel_[v].type));
      home_valid_[index(v)] = true;
    }
    Release(r);
  }
  for (const auto& [key, reg] : accumulator_) {
    vmovups(Home(key.first), Vector(reg, kernel_[key.first].type));
  }
}

void Emitter::ReloadFixed() {
  for (const auto& [v, reg] : fixed_reg_) {
    Move(Vector(reg, kernel_[v].type), IsConst(v) ? ConstAddress(kernel_[v]) : Home(v));
  }
  for (const auto& [key, reg] : accumulator_) Move(Vector(reg, kernel_[key.first].type), Home(key.first));
}

void Emitter::Move(const Xbyak::Xmm& to, const Xbyak::Operand& from) {
  if (from.isMEM() || to.getIdx() != from.getIdx()) vmovups(to, from);
}

}  // namespace framefuse::emit
