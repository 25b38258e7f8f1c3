// Instructions and values as the logs `trace` and `bytecode` show them. Stateless; runs no code of the program's.
#ifndef FRAMEFUSE_SYMBOLIC_MESSAGES_TRACE_TEXT_H_
#define FRAMEFUSE_SYMBOLIC_MESSAGES_TRACE_TEXT_H_

#include <string>

#include "frame_eval/bytecode/decode.h"
#include "symbolic/evaluator/activation.h"

namespace framefuse {

// "LOAD_ATTR 3 (weight)": with the name or constant that the argument means, where it is one.
std::string InstructionText(PyCodeObject* code, const Bytecode& bytecode, const Instruction& instruction);
// The instruction that `act` is about to execute, its place, and the values on the stack, the top one last.
std::string TraceText(const Activation& act);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_MESSAGES_TRACE_TEXT_H_
