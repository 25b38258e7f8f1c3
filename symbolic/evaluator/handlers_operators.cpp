// Unary, binary, comparison and subscript operators.
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {
namespace {

template <UnaryOp kOp>
Step Unary(Execution& e, const Instruction&) {
  return e.Replace(1, e.protocols.Unary(e.act, kOp, e.View(1)));
}

Step BinaryOp(Execution& e, const Instruction& in) {
  return e.Replace(2, e.protocols.Binary(e.act, in.arg, e.View(2), e.View(1)));
}
Step CompareOp(Execution& e, const Instruction& in) {
  return e.Replace(2, e.protocols.Compare(e.act, in.arg, e.View(2), e.View(1)));
}
Step CompareOpToBool(Execution& e, const Instruction& in) {
  const Value result = e.protocols.Compare(e.act, in.arg, e.View(2), e.View(1));
  if (!result) return Step::kError;
  return e.PushBool(e.protocols.IsTrue(e.act, result), 2);
}
Step ToBool(Execution& e, const Instruction&) { return e.PushBool(e.protocols.IsTrue(e.act, e.View(1)), 1); }
Step IsOp(Execution& e, const Instruction& in) {
  return e.PushBool(e.protocols.Is(e.act, e.View(2), e.View(1)), 2, in.arg != 0);
}
Step ContainsOp(Execution& e, const Instruction& in) {
  return e.PushBool(e.protocols.Contains(e.act, e.View(2), e.View(1)), 2, in.arg != 0);
}
Step BinarySubscr(Execution& e, const Instruction&) {
  return e.Replace(2, e.protocols.GetItem(e.act, e.View(2), e.View(1)));
}
Step StoreSubscr(Execution& e, const Instruction&) {
  return e.Done(e.protocols.SetItem(e.act, e.View(2), e.View(1), e.View(3)), 3);
}
Step DeleteSubscr(Execution& e, const Instruction&) {
  return e.Done(e.protocols.DeleteItem(e.act, e.View(2), e.View(1)), 2);
}

Step BinarySlice(Execution& e, const Instruction&) {
  const Value slice = e.protocols.BuildSlice(e.act, e.View(2), e.View(1), {});
  if (!slice) return Step::kError;
  return e.Replace(3, e.protocols.GetItem(e.act, e.View(3), slice));
}
Step StoreSlice(Execution& e, const Instruction&) {
  const Value slice = e.protocols.BuildSlice(e.act, e.View(2), e.View(1), {});
  if (!slice) return Step::kError;
  return e.Done(e.protocols.SetItem(e.act, e.View(3), slice, e.View(4)), 4);
}

}  // namespace

void AddOperatorHandlers(HandlerTable& table) {
  table.Add(Opcode::kUnaryPositive, Unary<UnaryOp::kPositive>);
  table.Add(Opcode::kUnaryNegative, Unary<UnaryOp::kNegative>);
  table.Add(Opcode::kUnaryNot, Unary<UnaryOp::kNot>);
  table.Add(Opcode::kUnaryInvert, Unary<UnaryOp::kInvert>);
  table.Add(Opcode::kBinaryOp, BinaryOp);
  table.Add(Opcode::kCompareOp, CompareOp);
  table.Add(Opcode::kCompareOpToBool, CompareOpToBool);
  table.Add(Opcode::kToBool, ToBool);
  table.Add(Opcode::kIsOp, IsOp);
  table.Add(Opcode::kContainsOp, ContainsOp);
  table.Add(Opcode::kBinarySubscr, BinarySubscr);
  table.Add(Opcode::kStoreSubscr, StoreSubscr);
  table.Add(Opcode::kDeleteSubscr, DeleteSubscr);
  table.Add(Opcode::kBinarySlice, BinarySlice);
  table.Add(Opcode::kStoreSlice, StoreSlice);
}

}  // namespace framefuse
