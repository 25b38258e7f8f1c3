// PTX text as what the emulation runs: instructions with their operands resolved to registers, addresses and targets.
// Invariant: each instruction has a handler; a text with one that is not known is refused with its name and line.
#ifndef FRAMEFUSE_TESTS_KERNELS_PTX_PROGRAM_H_
#define FRAMEFUSE_TESTS_KERNELS_PTX_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace framefuse::testing::ptx {

class Machine;
struct Instruction;
using Handler = void (*)(Machine&, const Instruction&);

enum class Special : std::uint8_t { kTidX, kNTidX, kCtaIdX, kCtaIdY, kNCtaIdX, kNCtaIdY, kLaneId };

struct Operand {
  enum class Kind : std::uint8_t { kNone, kRegister, kInteger, kSingle, kDouble, kAddress, kSpecial, kLanes, kMemory };
  Kind kind = Kind::kNone;
  std::uint8_t bytes = 0;   // of the register; 1: a predicate
  int reg = -1;             // kMemory: the base, or none
  int predicate = -1;       // the second result of `d|p`
  std::uint64_t value = 0;  // immediate, address, offset, Special, instruction that is jumped to
  std::vector<Operand> lanes;
};

struct Instruction {
  Handler run = nullptr;
  int guard = -1;
  bool guard_wants = true;
  std::vector<Operand> operands;
  int line = 0;
  std::string text, name;
};

struct Entry {
  std::string name;
  std::size_t parameter_bytes = 0, shared_bytes = 0;
  unsigned most_threads = 1024;
  std::vector<std::uint8_t> register_bytes;
  std::vector<Instruction> code;
};

struct Program {
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<std::vector<char>>> constants;  // of the module, at addresses that stay
  const Entry* Find(std::string_view name) const;
};

absl::StatusOr<std::shared_ptr<const Program>> Parse(std::string_view text);

// Null where the emulation does not have it.
Handler FindHandler(const std::string& name);

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // first byte, and the one past the last

// `words`: the argument block. `memory`: what may be read and written beside the program's constants; empty: anything.
// An error names the instruction: a register that was never set, an address that is not
// aligned, memory that threads share without a barrier between them, threads that wait for each other.
absl::Status Run(const Entry& entry, const std::vector<std::int64_t>& words, unsigned blocks, unsigned rows,
                 unsigned threads, const Ranges& memory = {});

}  // namespace framefuse::testing::ptx

#endif  // FRAMEFUSE_TESTS_KERNELS_PTX_PROGRAM_H_
