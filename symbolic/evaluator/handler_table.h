// The dispatch table: one handler for each neutral opcode. Each handlers_*.cpp file adds its family once; a missing
// or doubly registered opcode ends the process when the table is built.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_HANDLER_TABLE_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_HANDLER_TABLE_H_

#include <array>

#include "symbolic/evaluator/execution.h"

namespace framefuse {

class HandlerTable {
 public:
  static const HandlerTable& Get();
  void Add(Opcode opcode, Handler handler);
  Handler operator[](Opcode opcode) const { return handlers_[static_cast<std::size_t>(opcode)]; }
  const Handler* data() const { return handlers_.data(); }

 private:
  HandlerTable();
  std::array<Handler, kOpcodeCount> handlers_{};
};

void AddLoadHandlers(HandlerTable& table);
void AddNameHandlers(HandlerTable& table);
void AddOperatorHandlers(HandlerTable& table);
void AddCallHandlers(HandlerTable& table);
void AddControlHandlers(HandlerTable& table);
void AddExceptionHandlers(HandlerTable& table);
void AddGeneratorHandlers(HandlerTable& table);
void AddBuildHandlers(HandlerTable& table);
void AddMatchHandlers(HandlerTable& table);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_HANDLER_TABLE_H_
