// Generators, coroutines and the async statements.
#include "symbolic/evaluator/handler_table.h"
#include "symbolic/evaluator/native_async.h"

namespace framefuse {
namespace {

// Evaluate gives a generator's first start to CPython before it comes here.
Step ReturnGenerator(Execution&, const Instruction&) {
  PyErr_SetString(PyExc_SystemError, "framefuse: a generator's prologue was evaluated in part");
  return Step::kError;
}

Step YieldValue(Execution& e, const Instruction& in) {
  // A capture runs a copy of its own frame, which no generator owns.
  if (!frame_ops::IsGenerator(e.act.frame) && !e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  e.result = {Ref::Steal(e.Peek(1)), e.PeekSource(1)};
  --e.act.stack_depth;
  return Step::kYield;
}

Step Send(Execution& e, const Instruction& in) {
  Value result;
  const SendOutcome outcome = e.protocols.Send(e.act, e.View(2), e.View(1), &result);
  if (outcome == SendOutcome::kError) return Step::kError;
  if (outcome == SendOutcome::kYielded) return e.Replace(1, std::move(result));
  e.JumpTo(in.target);
  // Where END_SEND follows it drops the receiver, else SEND does.
  return e.Replace(e.next->opcode == Opcode::kEndSend ? 1 : 2, std::move(result));
}

Step EndSend(Execution& e, const Instruction&) {
  PyObject* receiver = e.Peek(2);
  e.Peek(2) = e.Peek(1);
  e.PeekSource(2) = e.PeekSource(1);
  --e.act.stack_depth;
  Py_DECREF(receiver);
  return Step::kNext;
}

Step GetYieldFromIter(Execution& e, const Instruction&) {
  return e.Replace(1, e.protocols.GetYieldFromIter(e.act, e.View(1)));
}

Step GetAwaitable(Execution& e, const Instruction& in) {
  if (!e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  return e.Replace(1, {framefuse::GetAwaitable(e.Peek(1), in.arg), kNoSource});
}

Step GetAiter(Execution& e, const Instruction& in) {
  if (!e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  return e.Replace(1, {GetAsyncIterator(e.Peek(1)), kNoSource});
}

Step GetAnext(Execution& e, const Instruction& in) {
  if (!e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  return e.Replace(0, {GetAsyncNext(e.Peek(1)), kNoSource});
}

Step BeforeAsyncWith(Execution& e, const Instruction& in) {
  if (!e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  Ref exit, entered;
  if (!EnterAsync(e.Peek(1), &exit, &entered)) return Step::kError;
  e.Drop(1);
  e.Push(exit.release(), kNoSource);
  e.Push(entered.release(), kNoSource);
  return Step::kNext;
}

Step AsyncGenWrap(Execution& e, const Instruction&) {
  return e.Replace(1, e.protocols.Intrinsic1(e.act, kIntrinsicAsyncGenWrap, e.View(1)));
}

}  // namespace

void AddGeneratorHandlers(HandlerTable& table) {
  table.Add(Opcode::kReturnGenerator, ReturnGenerator);
  table.Add(Opcode::kYieldValue, YieldValue);
  table.Add(Opcode::kSend, Send);
  table.Add(Opcode::kEndSend, EndSend);
  table.Add(Opcode::kGetYieldFromIter, GetYieldFromIter);
  table.Add(Opcode::kGetAwaitable, GetAwaitable);
  table.Add(Opcode::kGetAiter, GetAiter);
  table.Add(Opcode::kGetAnext, GetAnext);
  table.Add(Opcode::kBeforeAsyncWith, BeforeAsyncWith);
  table.Add(Opcode::kAsyncGenWrap, AsyncGenWrap);
}

}  // namespace framefuse
