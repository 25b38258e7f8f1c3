#include "frame_eval/versions/last_instructions.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "frame_eval/bytecode/decode.h"
#include "frame_eval/bytecode/liveness.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse::frame_ops {
namespace {

// Follows the stack's depth along every way through a code object.
class StackWalk {
 public:
  StackWalk(const Bytecode& bytecode, const std::uint8_t* bytes)
      : bytecode_(bytecode), bytes_(bytes), states_(bytecode.instructions().size()) {}

  std::vector<int> DepthsAt(int index) {
    Arrive(0, State{0, {}});
    while (!pending_.empty()) {
      const int position = pending_.back();
      pending_.pop_back();
      Leave(position);
    }
    const State& state = states_[static_cast<std::size_t>(bytecode_.PositionOf(index))];
    return state.numbers;
  }

 private:
  struct State {
    int depth = -1;  // not reached
    std::vector<int> numbers;
  };

  // The compiler gives a place the same stack on every way to it.
  void Arrive(int position, State state) {
    State& known = states_[static_cast<std::size_t>(position)];
    if (known.depth >= 0) return;
    while (!state.numbers.empty() && state.numbers.back() >= state.depth) state.numbers.pop_back();
    known = std::move(state);
    pending_.push_back(position);
  }

  int RawArgument(const Instruction& in) const {
    int arg = 0;
    for (int i = in.start; i <= in.index; ++i) arg = (arg << 8) | bytes_[std::ptrdiff_t{2} * i + 1];
    return arg;
  }

  int Effect(const Instruction& in, bool jumps) const {
    // The target lies behind what drops the iterator.
    if (jumps && in.opcode == Opcode::kForIter) return -1;
    return PyCompile_OpcodeStackEffectWithJump(in.raw, RawArgument(in), jumps ? 1 : 0);
  }

  void Leave(int position) {
    const Instruction& in = bytecode_.instructions()[static_cast<std::size_t>(position)];
    const State state = states_[static_cast<std::size_t>(position)];
    if (const ExceptionHandler* handler = bytecode_.FindHandler(in.index)) {
      State caught{handler->depth, state.numbers};
      while (!caught.numbers.empty() && caught.numbers.back() >= handler->depth) caught.numbers.pop_back();
      if (handler->push_last_instruction) {
        caught.numbers.push_back(handler->depth);
        ++caught.depth;
      }
      ++caught.depth;  // the exception
      Arrive(bytecode_.PositionOf(handler->target), std::move(caught));
    }
    if (in.target >= 0) Arrive(in.target, State{state.depth + Effect(in, true), state.numbers});
    if (FallsThrough(in.opcode) && position + 1 < static_cast<int>(states_.size())) {
      Arrive(position + 1, State{state.depth + Effect(in, false), state.numbers});
    }
  }

  const Bytecode& bytecode_;
  const std::uint8_t* bytes_;
  std::vector<State> states_;
  std::vector<int> pending_;
};

}  // namespace

std::vector<int> LastInstructionDepths(PyCodeObject* code, int index) {
  const Bytecode* bytecode = BytecodeOf(code);
  const Ref bytes = Ref::Steal(PyCode_GetCode(code));
  if (bytecode == nullptr || !bytes) {
    PyErr_Clear();
    return {};
  }
  return StackWalk(*bytecode, reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(bytes.get()))).DepthsAt(index);
}

}  // namespace framefuse::frame_ops
