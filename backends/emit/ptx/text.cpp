#include "backends/emit/ptx/text.h"

#include <bit>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace framefuse::emit::ptx {
namespace {

struct ClassInfo {
  const char *prefix, *type;
};
// By size: numbers of floating point need no move to be bits.
constexpr ClassInfo kInfo[kFiles] = {{"%p", ".pred"}, {"%h", ".b16"}, {"%r", ".b32"}, {"%rd", ".b64"}};

std::size_t FileOf(Class c) {
  constexpr std::size_t kOf[kClasses] = {0, 1, 2, 3, 2, 3};
  return kOf[static_cast<int>(c)];
}

}  // namespace

const char* MoveName(Class c) {
  constexpr const char* kOf[kClasses] = {"mov.pred", "mov.b16", "mov.b32", "mov.b64", "mov.f32", "mov.f64"};
  return kOf[static_cast<int>(c)];
}

Operand Immediate(std::int64_t value) {
  // There is no way to write the least number with its sign.
  if (value == INT64_MIN) return "0x8000000000000000";
  return std::to_string(value);
}

Operand ImmediateF32(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "0f%08X", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  return text;
}

Operand ImmediateF64(double value) {
  char text[24];
  std::snprintf(text, sizeof text, "0d%016llX", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
  return text;
}

bool IsImmediate(const Operand& operand) { return !operand.empty() && operand[0] != '%'; }

Operand Memory(const Operand& base, std::int64_t offset) {
  if (offset == 0) return "[" + base + "]";
  return absl::StrCat("[", base, offset < 0 ? "" : "+", offset, "]");
}

Operand Group(const std::vector<Operand>& operands) {
  return operands.size() == 1 ? operands[0] : "{" + absl::StrJoin(operands, ", ") + "}";
}

Operand Text::New(Class c) {
  const std::size_t i = FileOf(c);
  return absl::StrCat(kInfo[i].prefix, ++registers_[i]);
}

void Text::Write(std::string* out, std::string_view name, Operands operands, const Operand* to) {
  out->append("  ").append(name);
  const char* before = " ";
  const auto add = [&](const Operand& operand) {
    out->append(before).append(operand);
    before = ", ";
  };
  if (to != nullptr) add(*to);
  for (const Operand& operand : operands) add(operand);
  out->append(";\n");
}

void Text::Shared(const std::string& name, int bytes) {
  absl::StrAppend(&shared_, "  .shared .align 16 .b8 ", name, "[", bytes, "];\n");
}

std::string Text::Finish() const {
  std::string out;
  for (std::size_t i = 0; i < kFiles; ++i) {
    if (registers_[i] > 0)
      absl::StrAppend(&out, "  .reg ", kInfo[i].type, " ", kInfo[i].prefix, "<", registers_[i] + 1, ">;\n");
  }
  return out + shared_ + first_ + body_;
}

}  // namespace framefuse::emit::ptx
