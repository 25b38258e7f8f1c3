#include "frame_eval/bytecode/raising.h"

#include <vector>

#include "absl/container/flat_hash_set.h"

namespace framefuse {
namespace {

enum class Step : std::uint8_t { kRaises, kGoesOn, kJumps, kBranches, kLeaves };

// Of the instructions that a message and a raise are made of, the rest is for handlers, loops and returns.
Step StepOf(Opcode opcode) {
  if (opcode == Opcode::kRaiseVarargs || opcode == Opcode::kReraise) return Step::kRaises;
  if (opcode == Opcode::kJump) return Step::kJumps;
  const Opcode branches[] = {Opcode::kPopJumpIfFalse,   Opcode::kPopJumpIfTrue,    Opcode::kPopJumpIfNone,
                             Opcode::kPopJumpIfNotNone, Opcode::kJumpIfFalseOrPop, Opcode::kJumpIfTrueOrPop};
  for (const Opcode known : branches) {
    if (opcode == known) return Step::kBranches;
  }
  const Opcode leaves[] = {Opcode::kReturnValue, Opcode::kReturnConst,  Opcode::kReturnGenerator,
                           Opcode::kYieldValue,  Opcode::kJumpBackward, Opcode::kForIter,
                           Opcode::kSend,        Opcode::kInvalid};
  for (const Opcode known : leaves) {
    if (opcode == known) return Step::kLeaves;
  }
  return Step::kGoesOn;
}

}  // namespace

bool OnlyRaises(const Bytecode& code, int position) {
  constexpr std::size_t kMost = 400;
  const std::vector<Instruction>& all = code.instructions();
  std::vector<int> open = {position};
  absl::flat_hash_set<int> seen;
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (at < 0 || static_cast<std::size_t>(at) >= all.size() || seen.size() >= kMost) return false;
    if (!seen.insert(at).second) continue;
    const Instruction& instruction = all[static_cast<std::size_t>(at)];
    const Step step = StepOf(instruction.opcode);
    if (step == Step::kLeaves || (instruction.target >= 0 && instruction.target <= at)) return false;
    if (step == Step::kJumps || step == Step::kBranches) open.push_back(instruction.target);
    if (step == Step::kGoesOn || step == Step::kBranches) open.push_back(at + 1);
  }
  return true;
}

std::optional<bool> TruthThatGoesOn(const Bytecode& code, int index) {
  int at = code.PositionOf(index);
  const std::vector<Instruction>& all = code.instructions();
  // From 3.13 on the truth is asked for before the jump: by an instruction of its own, or by the comparison.
  const Opcode asks = all[static_cast<std::size_t>(at)].opcode;
  if (asks == Opcode::kToBool || asks == Opcode::kCompareOpToBool) ++at;
  if (static_cast<std::size_t>(at) + 1 >= all.size()) return std::nullopt;
  const Instruction& branch = all[static_cast<std::size_t>(at)];
  const bool jumps_if_true = branch.opcode == Opcode::kPopJumpIfTrue;
  if (!jumps_if_true && branch.opcode != Opcode::kPopJumpIfFalse) return std::nullopt;
  const bool jump_raises = OnlyRaises(code, branch.target);
  if (jump_raises == OnlyRaises(code, at + 1)) return std::nullopt;
  return jump_raises ? !jumps_if_true : jumps_if_true;
}

}  // namespace framefuse
