#include "frame_eval/versions/opcode_table.h"

#include <Python.h>
#include <opcode.h>

#include <array>

extern "C" const std::uint8_t* framefuse_opcode_caches(void);

namespace framefuse {
namespace {

static_assert(EXTENDED_ARG == kExtendedArg);

std::array<RawOpcode, 256> MakeTable() {
  std::array<RawOpcode, 256> table{};
  const std::uint8_t* caches = framefuse_opcode_caches();
  const auto add = [&](int raw, Opcode opcode, JumpKind jump, const char* name) {
    table[static_cast<std::size_t>(raw)] = {opcode, jump, caches[raw], name};
  };
#define FF_OPCODE(name, text, pops)
#define FF_RAW_BOTH(raw, name, jump) add(raw, Opcode::k##name, JumpKind::k##jump, #raw);
#if PY_VERSION_HEX < 0x030c0000
#define FF_RAW_311(raw, name, jump) add(raw, Opcode::k##name, JumpKind::k##jump, #raw);
#define FF_RAW_312(raw, name, jump)
#else
#define FF_RAW_311(raw, name, jump)
#define FF_RAW_312(raw, name, jump) add(raw, Opcode::k##name, JumpKind::k##jump, #raw);
#endif
#include "frame_eval/bytecode/opcodes.def"
#undef FF_OPCODE
#undef FF_RAW_BOTH
#undef FF_RAW_311
#undef FF_RAW_312
  return table;
}

}  // namespace

const RawOpcode& RawOpcodeOf(std::uint8_t raw) {
  static const std::array<RawOpcode, 256> table = MakeTable();
  return table[raw];
}

#if PY_VERSION_HEX < 0x030c0000
Normalised Normalise(Opcode opcode, int arg) { return {opcode, arg}; }
#else
Normalised Normalise(Opcode opcode, int arg) {
  switch (opcode) {
    case Opcode::kLoadAttr:
      return {(arg & 1) != 0 ? Opcode::kLoadMethod : Opcode::kLoadAttr, arg >> 1};
    case Opcode::kCompareOp:
      return {opcode, arg >> 4};
    default:
      return {opcode, arg};
  }
}
#endif

}  // namespace framefuse
