// The running Python's opcode numbers: what each becomes (bytecode/opcode.h) and how it is laid out.
// Invariant: numbers and cache sizes come from CPython's headers, never from us.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_OPCODE_TABLE_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_OPCODE_TABLE_H_

#include <cstdint>

#include "frame_eval/bytecode/opcode.h"

namespace framefuse {

enum class JumpKind : std::uint8_t { kNone, kForward, kBackward };

struct RawOpcode {
  Opcode opcode = Opcode::kInvalid;
  JumpKind jump = JumpKind::kNone;
  std::uint8_t caches = 0;
  const char* name = nullptr;  // CPython's; null: no opcode of this Python
};

const RawOpcode& RawOpcodeOf(std::uint8_t raw);
inline constexpr std::uint8_t kExtendedArg = 144;  // checked against opcode.h

// Unpacks arguments that carry more than one thing and chooses the neutral opcode by them.
struct Normalised {
  Opcode opcode;
  int arg;
};
Normalised Normalise(Opcode opcode, int arg);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_OPCODE_TABLE_H_
