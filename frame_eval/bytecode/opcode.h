// Opcode: the opcodes of all supported Python versions under one numbering of our own. Variants that a version
// spells differently (forward and backward jumps, LOAD_ATTR's method bit, COMPARE_OP's packed argument) are one here.
#ifndef FRAMEFUSE_FRAME_EVAL_BYTECODE_OPCODE_H_
#define FRAMEFUSE_FRAME_EVAL_BYTECODE_OPCODE_H_

#include <cstdint>

namespace framefuse {

enum class Opcode : std::uint8_t {
#define FF_OPCODE(name, text, pops, slots, after) k##name,
#include "frame_eval/bytecode/opcodes.def"
#undef FF_OPCODE
};

inline constexpr const char* kOpcodeNames[] = {
#define FF_OPCODE(name, text, pops, slots, after) text,
#include "frame_eval/bytecode/opcodes.def"
#undef FF_OPCODE
};

inline constexpr int kOpcodeCount = static_cast<int>(sizeof(kOpcodeNames) / sizeof(kOpcodeNames[0]));

inline const char* NameOf(Opcode opcode) { return kOpcodeNames[static_cast<int>(opcode)]; }
// Stack entries that the instruction consumes.
int PopsOf(Opcode opcode, int arg);

// What an instruction does to the slots that its argument names, in this order (opcodes.def).
enum class SlotUse : std::uint8_t { kNone, kReads, kWrites, kReadsTwo, kWritesReads, kWritesTwo };
SlotUse SlotUseOf(Opcode opcode);
// Whether the next instruction may follow.
bool FallsThrough(Opcode opcode);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_BYTECODE_OPCODE_H_
