#include "frame_eval/bytecode/lines.h"

#include <cstdint>
#include <vector>

#include "frame_eval/bytecode/decode.h"

namespace framefuse {
namespace {

// Kinds of entries, in the bits above the length of an entry's first byte, that may change the line.
constexpr int kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
constexpr int kFirstByte = 0x80;  // set in the first byte of an entry only

int ReadSigned(const std::uint8_t* at) {
  unsigned value = 0;
  for (int shift = 0;; shift += 6) {
    const unsigned byte = *at++;
    value |= (byte & 0x3f) << shift;
    if ((byte & 0x40) == 0) break;
  }
  return (value & 1) != 0 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
}

std::vector<std::int32_t> ReadLines(PyCodeObject* code) {
  std::vector<std::int32_t> lines;
  const auto* at = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(code->co_linetable));
  const std::uint8_t* const end = at + PyBytes_GET_SIZE(code->co_linetable);
  int line = code->co_firstlineno;
  while (at < end) {
    const int units = (*at & 7) + 1;
    const int kind = (*at & 0x7f) >> 3;
    ++at;
    if (kind == kNoColumns || kind == kLong) line += ReadSigned(at);
    if (kind >= kOneLine && kind < kNoColumns) line += kind - kOneLine;
    lines.insert(lines.end(), static_cast<std::size_t>(units), kind == kNone ? -1 : line);
    while (at < end && (*at & kFirstByte) == 0) ++at;
  }
  return lines;
}

}  // namespace

int LineOfUnit(PyCodeObject* code, int index) {
  if (index < 0) return code->co_firstlineno;
  auto* bytecode = const_cast<Bytecode*>(BytecodeOf(code));
  if (bytecode == nullptr) {
    PyErr_Clear();
    return PyCode_Addr2Line(code, index * 2);
  }
  if (bytecode->lines_.empty()) bytecode->lines_ = ReadLines(code);
  const auto i = static_cast<std::size_t>(index);
  return i < bytecode->lines_.size() ? bytecode->lines_[i] : -1;
}

}  // namespace framefuse
