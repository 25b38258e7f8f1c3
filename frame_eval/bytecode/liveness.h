// Liveness: which local slots may still be read before they are written, at each instruction of a code object.
// A backward dataflow over the decoded instructions; an instruction that can raise reaches its handler.
// Invariant: never says dead of a slot that some path reads; cells and free variables count as locals by slot.
#ifndef FRAMEFUSE_FRAME_EVAL_BYTECODE_LIVENESS_H_
#define FRAMEFUSE_FRAME_EVAL_BYTECODE_LIVENESS_H_

#include <cstdint>
#include <vector>

#include "frame_eval/bytecode/decode.h"

namespace framefuse {

class Liveness {
 public:
  Liveness(const Bytecode& bytecode, int slot_count);
  // Before the instruction that covers the code unit `index`.
  bool IsLive(int index, int slot) const {
    const std::size_t bit = static_cast<std::size_t>(bytecode_.PositionOf(index)) * words_ * 64 + slot;
    return (live_[bit / 64] >> (bit % 64) & 1) != 0;
  }

 private:
  std::uint64_t* Row(int position) { return &live_[static_cast<std::size_t>(position) * words_]; }
  // Recomputes one row from its successors; true if it changed.
  bool Update(int position, std::vector<std::uint64_t>& scratch);
  void Merge(std::vector<std::uint64_t>& into, int position);

  const Bytecode& bytecode_;
  std::size_t words_;
  std::vector<std::uint64_t> live_;
};

// The code object's own, computed at first use. The code object must decode.
const Liveness& LivenessOf(PyCodeObject* code);
// Whether the instruction reads or writes the slot.
bool MentionsSlot(const Instruction& in, int slot);

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_BYTECODE_LIVENESS_H_
