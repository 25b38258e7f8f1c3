// What becomes of a call that an inlined frame makes: where its result goes, by the calling instruction.
#include "symbolic/evaluator/evaluator.h"

namespace framefuse {

CallResult CallResultOf(const Instruction& in) {
  switch (in.opcode) {
    case Opcode::kCall:
    case Opcode::kCallKw:
    case Opcode::kCallFunctionEx:
    case Opcode::kLoadAttr:
    case Opcode::kUnaryPositive:
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryInvert:
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kBinarySubscr:
    case Opcode::kBinarySlice:
    case Opcode::kWithExceptStart:
    case Opcode::kImportName:
      return CallResult::kPushed;
    case Opcode::kLoadMethod:
      return CallResult::kPushedBesideNull;
    case Opcode::kLoadSuperAttr:
      return (in.arg & 1) != 0 ? CallResult::kPushedBesideNull : CallResult::kPushed;
    case Opcode::kStoreAttr:
    case Opcode::kDeleteAttr:
    case Opcode::kStoreSubscr:
    case Opcode::kDeleteSubscr:
    case Opcode::kStoreSlice:
      return CallResult::kDropped;
    default:
      return CallResult::kUsed;
  }
}

}  // namespace framefuse
