#include "frame_eval/bytecode/liveness.h"

#include <algorithm>

#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

// Applies what the instruction does to slots, from its last use to its first.
template <class Read, class Write>
void ForEachUseBackwards(const Instruction& in, Read read, Write write) {
  const int first = in.arg >> 4, second = in.arg & 15;
  switch (SlotUseOf(in.opcode)) {
    case SlotUse::kNone:
      return;
    case SlotUse::kReads:
      read(in.arg);
      return;
    case SlotUse::kWrites:
      write(in.arg);
      return;
    case SlotUse::kReadsTwo:
      read(first);
      read(second);
      return;
    case SlotUse::kWritesReads:
      read(second);
      write(first);
      return;
    case SlotUse::kWritesTwo:
      write(second);
      write(first);
      return;
  }
}

}  // namespace

bool MentionsSlot(const Instruction& in, int slot) {
  bool found = false;
  const auto see = [&](int s) { found = found || s == slot; };
  ForEachUseBackwards(in, see, see);
  return found;
}

Liveness::Liveness(const Bytecode& bytecode, int slot_count)
    : bytecode_(bytecode),
      words_(static_cast<std::size_t>(slot_count + 63) / 64),
      live_(bytecode.instructions().size() * words_, 0) {
  std::vector<std::uint64_t> scratch(words_);
  bool changed = words_ != 0;
  while (changed) {
    changed = false;
    for (int i = static_cast<int>(bytecode.instructions().size()) - 1; i >= 0; --i) changed |= Update(i, scratch);
  }
}

void Liveness::Merge(std::vector<std::uint64_t>& into, int position) {
  const std::uint64_t* row = Row(position);
  for (std::size_t w = 0; w < words_; ++w) into[w] |= row[w];
}

bool Liveness::Update(int position, std::vector<std::uint64_t>& scratch) {
  const auto& instructions = bytecode_.instructions();
  const Instruction& in = instructions[static_cast<std::size_t>(position)];
  std::fill(scratch.begin(), scratch.end(), 0);
  if (FallsThrough(in.opcode) && position + 1 < static_cast<int>(instructions.size())) Merge(scratch, position + 1);
  if (in.target >= 0) Merge(scratch, in.target);
  const auto word = [&](int slot) -> std::uint64_t& { return scratch[static_cast<std::size_t>(slot) / 64]; };
  const auto bit = [](int slot) { return std::uint64_t{1} << (slot % 64); };
  ForEachUseBackwards(
      in, [&](int slot) { word(slot) |= bit(slot); }, [&](int slot) { word(slot) &= ~bit(slot); });
  // The handler sees the slots as they are before the write.
  if (const ExceptionHandler* handler = bytecode_.FindHandler(in.index)) {
    Merge(scratch, bytecode_.PositionOf(handler->target));
  }
  std::uint64_t* row = Row(position);
  if (std::equal(scratch.begin(), scratch.end(), row)) return false;
  std::copy(scratch.begin(), scratch.end(), row);
  return true;
}

const Liveness& LivenessOf(PyCodeObject* code) {
  auto* bytecode = const_cast<Bytecode*>(BytecodeOf(code));
  if (bytecode->liveness_ == nullptr) {
    bytecode->liveness_ = std::make_unique<Liveness>(*bytecode, frame_ops::SlotCount(code));
  }
  return *bytecode->liveness_;
}

}  // namespace framefuse
