// Text: a kernel's PTX as it is written: registers by class, labels, instructions; and operands, which are registers or
// immediates, so that arithmetic on numbers known here costs nothing. Two streams: what is read of the arguments once
// stands before the rest. Registers may be written more than once.
#ifndef FRAMEFUSE_BACKENDS_EMIT_PTX_TEXT_H_
#define FRAMEFUSE_BACKENDS_EMIT_PTX_TEXT_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace framefuse::emit::ptx {

using Operand = std::string;
using Operands = std::initializer_list<Operand>;

enum class Class : std::uint8_t { kPred, k16, k32, k64, kF32, kF64 };
inline constexpr int kClasses = 6, kFiles = 4;

const char* MoveName(Class c);  // mov.b32 ...
Operand Immediate(std::int64_t value);
Operand ImmediateF32(double value);
Operand ImmediateF64(double value);
bool IsImmediate(const Operand& operand);
// [base + offset]
Operand Memory(const Operand& base, std::int64_t offset);
// {a, b, ...}, or the only one
Operand Group(const std::vector<Operand>& operands);

class Text {
 public:
  Operand New(Class c);
  // name from, ...: instructions without a result.
  void Do(std::string_view name, Operands operands) { Write(&body_, name, operands); }
  void Brace(const char* brace) { body_.append("  ").append(brace).append("\n"); }
  // Into a register that there is, or a new one.
  void To(const Operand& to, std::string_view name, Operands from) { Write(&body_, name, from, &to); }
  Operand Make(Class c, std::string_view name, Operands from) {
    Operand to = New(c);
    Write(&body_, name, from, &to);
    return to;
  }
  // The same once for the kernel, before everything else.
  Operand First(Class c, std::string_view name, Operands from) {
    Operand to = New(c);
    Write(&first_, name, from, &to);
    return to;
  }

  std::string Label() { return "L" + std::to_string(++labels_); }
  void Place(const std::string& label) { body_ += label + ":\n"; }
  // Where a loop begins that is to stay one.
  void PlaceLoop(const std::string& label) {
    Place(label);
    body_ += "  .pragma \"nounroll\";\n";
  }
  void Jump(const std::string& label) { Do("bra.uni", {label}); }
  void JumpIf(const Operand& pred, const std::string& label) { Do("@" + pred + " bra", {label}); }
  void JumpUnless(const Operand& pred, const std::string& label) { Do("@!" + pred + " bra", {label}); }

  void Shared(const std::string& name, int bytes);
  // Registers, shared memory, the two streams.
  std::string Finish() const;

 private:
  static void Write(std::string* out, std::string_view name, Operands operands, const Operand* to = nullptr);
  std::array<int, kFiles> registers_ = {};
  int labels_ = 0;
  std::string shared_, first_, body_;
};

}  // namespace framefuse::emit::ptx

#endif  // FRAMEFUSE_BACKENDS_EMIT_PTX_TEXT_H_
