// Bytecode: a code object as neutral instructions, decoded once per code object from its original bytecode (no
// quickened, instrumented or super-instruction forms), with its exception table. Owned by the code object's extra
// slot, so it lives as long as the code object.
// A call is one instruction: KW_NAMES, PRECALL and CALL are folded, since CPython keeps state between them outside
// of the frame; `start` is then the first of the three.
#ifndef FRAMEFUSE_FRAME_EVAL_BYTECODE_DECODE_H_
#define FRAMEFUSE_FRAME_EVAL_BYTECODE_DECODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "frame_eval/bytecode/opcode.h"
#include "frame_eval/ref.h"

namespace framefuse {

class Liveness;

// Indices are in code units from the start of the bytecode; positions count instructions.
struct Instruction {
  Opcode opcode = Opcode::kInvalid;
  std::uint8_t raw = 0;       // CPython's number, of the CALL for a folded call
  std::uint16_t pops = 0;     // stack entries consumed
  std::int32_t arg = 0;       // normalised: EXTENDED_ARG folded, name and comparison indices unpacked
  std::int32_t kwnames = -1;  // calls: index of the constant with the keyword names, or -1
  std::int32_t start = 0;     // index of the first unit, EXTENDED_ARG and folded opcodes included: where to resume
  std::int32_t index = 0;     // index of the opcode itself: line numbers, exception table
  std::int32_t next = 0;      // index after it and its caches
  std::int32_t target = -1;   // position of the jump target, or -1. FOR_ITER: where an exhausted loop goes on
};

struct ExceptionHandler {
  int start = 0;  // covers instructions with start <= index < end
  int end = 0;
  int target = 0;  // index
  int depth = 0;   // stack entries kept
  bool push_last_instruction = false;
};

class Bytecode {
 public:
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<ExceptionHandler>& handlers() const { return handlers_; }
  // Position of the instruction that covers the code unit `index` (a cache or prefix belongs to its instruction).
  int PositionOf(int index) const { return positions_[static_cast<std::size_t>(index)]; }
  const Instruction& At(int index) const { return instructions_[static_cast<std::size_t>(PositionOf(index))]; }
  // The handler of an error at `index`, or null.
  const ExceptionHandler* FindHandler(int index) const;
  int unit_count() const { return static_cast<int>(positions_.size()); }

 private:
  friend std::unique_ptr<Bytecode> Decode(PyCodeObject* code);
  friend const Liveness& LivenessOf(PyCodeObject* code);
  friend int LineOfUnit(PyCodeObject* code, int index);
  Bytecode();

 public:
  ~Bytecode();

 private:
  void ReadInstructions(const std::uint8_t* bytes, int unit_count);
  void ResolveTargets(const std::vector<int>& target_indices);
  bool ReadHandlers(PyObject* table);

  std::vector<Instruction> instructions_;
  std::vector<std::int32_t> positions_;
  std::vector<ExceptionHandler> handlers_;
  std::unique_ptr<Liveness> liveness_;  // made when first asked for
  std::vector<std::int32_t> lines_;     // of each unit; made when first asked for
};

// Decodes afresh; null with a Python error set (out of memory, malformed bytecode).
std::unique_ptr<Bytecode> Decode(PyCodeObject* code);
// The code object's own, decoded at first use; null with a Python error set.
const Bytecode* BytecodeOf(PyCodeObject* code);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_BYTECODE_DECODE_H_
