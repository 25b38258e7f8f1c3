// The running Python's opcode numbers: what each becomes (bytecode/opcode.h) and how it is laid out.
// Invariant: numbers and cache sizes come from CPython's headers, never from us.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_OPCODE_TABLE_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_OPCODE_TABLE_H_

#include <Python.h>

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
bool IsExtendedArg(std::uint8_t raw);

// Unpacks arguments that carry more than one thing and chooses the neutral opcode by them.
struct Normalised {
  Opcode opcode;
  int arg;
};
Normalised Normalise(Opcode opcode, int arg);

// The two entries below a call's arguments are [method, self], or without a self [callable, null] where this is true,
// else [null, callable].
inline constexpr bool kNullOverCallable = PY_VERSION_HEX >= 0x030D0000;
// Too many values in a list, a tuple or a dict to be unpacked are counted in the message.
inline constexpr bool kCountsTooManyValues = PY_VERSION_HEX >= 0x030E0000;
// A `with` block keeps its __exit__ like a callable before a call, in two entries.
inline constexpr bool kExitHasSelf = PY_VERSION_HEX >= 0x030E0000;

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_OPCODE_TABLE_H_
