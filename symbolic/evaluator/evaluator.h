// The evaluator: executes one frame's bytecode with a given meaning (Protocols).
// It owns control flow, slots, the exception table, generators; it knows nothing of journals, guards or
// tensors. With NativeProtocols it is a plain Python interpreter and passes CPython's own tests.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_EVALUATOR_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_EVALUATOR_H_

#include "symbolic/evaluator/protocols.h"

namespace framefuse {

enum class StartAt : std::uint8_t {
  kNext,   // execute from act.frame's next instruction on
  kThrow,  // a Python error is set: unwind at the frame's last instruction (generator throw, failed resume)
};

struct RunResult {
  Outcome outcome;
  Value value;  // kReturned, kYielded
};

// Executes until the frame returns, yields, raises, pauses or unwinds. Links the frame for the duration
// (tstate's current frame) and leaves it linked exactly as found. Does not clear or pop the frame.
RunResult Evaluate(PyThreadState* thread, Activation& act, Protocols& protocols, StartAt start);

// True for opcodes of this Python that the evaluator executes; `name` for tables and messages.
bool HandlesOpcode(int opcode);
const char* OpcodeName(int opcode);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_EVALUATOR_H_
