// The `match` statement.
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {
namespace {

Step GetLen(Execution& e, const Instruction&) { return e.Replace(0, e.protocols.GetLength(e.act, e.View(1))); }

Step MatchMapping(Execution& e, const Instruction&) {
  return e.PushBool(e.protocols.MatchMapping(e.act, e.View(1)), 0);
}

Step MatchSequence(Execution& e, const Instruction&) {
  return e.PushBool(e.protocols.MatchSequence(e.act, e.View(1)), 0);
}

Step MatchKeys(Execution& e, const Instruction&) {
  return e.Replace(0, e.protocols.MatchKeys(e.act, e.View(2), e.View(1)));
}

Step MatchClass(Execution& e, const Instruction& in) {
  return e.Replace(3, e.protocols.MatchClass(e.act, e.View(3), e.View(2), in.arg, e.View(1)));
}

}  // namespace

void AddMatchHandlers(HandlerTable& table) {
  table.Add(Opcode::kGetLen, GetLen);
  table.Add(Opcode::kMatchMapping, MatchMapping);
  table.Add(Opcode::kMatchSequence, MatchSequence);
  table.Add(Opcode::kMatchKeys, MatchKeys);
  table.Add(Opcode::kMatchClass, MatchClass);
}

}  // namespace framefuse
