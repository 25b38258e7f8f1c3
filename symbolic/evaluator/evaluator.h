// The evaluator: executes one frame's bytecode with a given meaning (Protocols).
// It owns control flow, slots, the exception table, generators; it knows nothing of journals, guards or
// tensors. With NativeProtocols it is a plain Python interpreter and passes CPython's own tests.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_EVALUATOR_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_EVALUATOR_H_

#include "frame_eval/bytecode/decode.h"
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
// kThrow adds the frame's traceback entry and unwinds at the instruction before the frame's next one: CPython's
// convention, so a frame that stands at an interrupted instruction's next_instruction unwinds at that instruction.
// A generator's first start is not for Evaluate: give it to frame_ops::EvalDefault.
RunResult Evaluate(PyThreadState* thread, Activation& act, Protocols& protocols, StartAt start);

// What becomes of the result of the call that an instruction makes last (of a function, a property, __getitem__ …),
// when that call ends elsewhere, as in frames rebuilt after a break: how to complete the instruction by hand.
// A call whose result or error the instruction still looks at (GET_ITER checks for an iterator, IMPORT_FROM turns
// AttributeError into ImportError, FOR_ITER ends on StopIteration) is kUsed.
enum class CallResult : std::uint8_t {
  kPushed,            // push it at resume_depth, go on at next_instruction
  kPushedBesideNull,  // push it as a callable without a self (LOAD_METHOD and its like, where the attribute is no plain
                      // method)
  kDropped,           // the stack stays at resume_depth
  kUsed,              // the instruction goes on with it (tests it, unpacks it …): cannot be completed by hand
};
CallResult CallResultOf(const Instruction& in);

// True for opcodes of this Python that the evaluator executes; `name` for tables and messages.
bool HandlesOpcode(int opcode);
const char* OpcodeName(int opcode);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_EVALUATOR_H_
