#include "frame_eval/versions/opcode_table.h"

#include <opcode.h>

#include <array>

extern "C" const std::uint8_t* framefuse_opcode_caches(void);

namespace framefuse {
namespace {

std::array<RawOpcode, 256> MakeTable() {
  std::array<RawOpcode, 256> table{};
  const std::uint8_t* caches = framefuse_opcode_caches();
  const auto add = [&](int raw, Opcode opcode, JumpKind jump, const char* name) {
    table[static_cast<std::size_t>(raw)] = {opcode, jump, caches[raw], name};
  };
#define FF_RAW(raw, name, jump) add(raw, Opcode::k##name, JumpKind::k##jump, #raw);
#include "frame_eval/versions/raw_opcodes.def"
#undef FF_RAW
  return table;
}

}  // namespace

const RawOpcode& RawOpcodeOf(std::uint8_t raw) {
  static const std::array<RawOpcode, 256> table = MakeTable();
  return table[raw];
}

bool IsExtendedArg(std::uint8_t raw) { return raw == EXTENDED_ARG; }

Normalised Normalise(Opcode opcode, int arg) {
  switch (opcode) {
#if PY_VERSION_HEX >= 0x030C0000
    case Opcode::kLoadAttr:
      return {(arg & 1) != 0 ? Opcode::kLoadMethod : Opcode::kLoadAttr, arg >> 1};
#endif
#if PY_VERSION_HEX >= 0x030D0000
    case Opcode::kResume:
      return {opcode, arg & 3};  // the other bit says how deep its handlers are
    case Opcode::kEndFor:
      return {opcode, 1};  // a POP_TOP for the iterator follows
#if PY_VERSION_HEX >= 0x030E0000
    case Opcode::kBinaryOp:
      if (arg == NB_SUBSCR) return {Opcode::kBinarySubscr, 0};
      return {opcode, arg};
    case Opcode::kCallFunctionEx:
      return {opcode, 1};  // the place of the keywords is there, and null without any
#endif
    case Opcode::kCompareOp:
      return {(arg & 16) != 0 ? Opcode::kCompareOpToBool : Opcode::kCompareOp, arg >> 5};
#elif PY_VERSION_HEX >= 0x030C0000
    case Opcode::kEndFor:
      return {opcode, 2};
    case Opcode::kCompareOp:
      return {opcode, arg >> 4};
#endif
    default:
      return {opcode, arg};
  }
}

}  // namespace framefuse
