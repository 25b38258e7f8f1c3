#include "symbolic/evaluator/handler_table.h"

#include "common/check.h"

namespace framefuse {

HandlerTable::HandlerTable() {
  AddLoadHandlers(*this);
  AddNameHandlers(*this);
  AddOperatorHandlers(*this);
  AddCallHandlers(*this);
  AddControlHandlers(*this);
  AddExceptionHandlers(*this);
  AddGeneratorHandlers(*this);
  AddBuildHandlers(*this);
  AddMatchHandlers(*this);
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    // Decoding folds these two into CALL.
    if (opcode == Opcode::kKwNames || opcode == Opcode::kPrecall) continue;
    FF_CHECK(handlers_[static_cast<std::size_t>(i)] != nullptr) << "no handler of " << NameOf(opcode);
  }
}

void HandlerTable::Add(Opcode opcode, Handler handler) {
  Handler& entry = handlers_[static_cast<std::size_t>(opcode)];
  FF_CHECK(entry == nullptr) << "a second handler of " << NameOf(opcode);
  entry = handler;
}

const HandlerTable& HandlerTable::Get() {
  static const HandlerTable table;
  return table;
}

}  // namespace framefuse
