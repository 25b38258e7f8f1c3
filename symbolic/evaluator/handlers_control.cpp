// Jumps, loops, the frame's start and end.
#include "frame_eval/bytecode/lines.h"
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {
namespace {

constexpr int kResumeAtYieldFrom = 2;

// A number that this Python gives no meaning, as a code object made by hand may have.
Step Invalid(Execution& e, const Instruction& in) {
  if (!e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  // The original bytecode that was decoded has 0 for such a number.
  const int number = *reinterpret_cast<const std::uint8_t*>(frame_ops::CodeUnits(e.code) + in.index);
  PyErr_Format(PyExc_SystemError, "%U:%d: unknown opcode %d", e.code->co_filename, LineOfUnit(e.code, in.index),
               number);
  return Step::kError;
}

Step Resume(Execution& e, const Instruction& in) {
  return in.arg < kResumeAtYieldFrom ? e.ServePendingWork() : Step::kNext;
}

Step ReturnValue(Execution& e, const Instruction&) {
  e.result = {Ref::Steal(e.Peek(1)), e.PeekSource(1)};
  --e.act.stack_depth;
  return Step::kReturn;
}

Step ReturnConst(Execution& e, const Instruction& in) {
  e.result = {Ref::Create(PyTuple_GET_ITEM(e.code->co_consts, in.arg)), kNoSource};
  return Step::kReturn;
}

Step Jump(Execution& e, const Instruction& in) {
  e.JumpTo(in.target);
  return Step::kNext;
}

Step JumpBackward(Execution& e, const Instruction& in) {
  e.JumpTo(in.target);
  return e.ServePendingWork();
}

template <bool kJumpIf>
Step PopJumpIf(Execution& e, const Instruction& in) {
  const Truth truth = e.protocols.IsTrue(e.act, e.View(1));
  if (truth == Truth::kError) return Step::kError;
  e.Drop(1);
  return e.Branch(in, (truth == Truth::kTrue) == kJumpIf);
}

template <bool kJumpIf>
Step PopJumpIfNone(Execution& e, const Instruction& in) {
  const Truth truth = e.protocols.IsNone(e.act, e.View(1));
  if (truth == Truth::kError) return Step::kError;
  e.Drop(1);
  return e.Branch(in, (truth == Truth::kTrue) == kJumpIf);
}

template <bool kJumpIf>
Step JumpIfOrPop(Execution& e, const Instruction& in) {
  const Truth truth = e.protocols.IsTrue(e.act, e.View(1));
  if (truth == Truth::kError) return Step::kError;
  if ((truth == Truth::kTrue) == kJumpIf) {
    e.JumpTo(in.target);
  } else {
    e.Drop(1);
  }
  return Step::kNext;
}

Step GetIter(Execution& e, const Instruction&) { return e.Replace(1, e.protocols.GetIter(e.act, e.View(1))); }

Step ForIter(Execution& e, const Instruction& in) {
  Value item;
  const ForIterOutcome outcome = e.protocols.ForIter(e.act, e.View(1), &item);
  if (outcome == ForIterOutcome::kError) [[unlikely]] {
    return Step::kError;
  }
  if (outcome == ForIterOutcome::kItem) {
    e.Push(std::move(item));
    return Step::kNext;
  }
  e.Drop(1);
  e.JumpTo(in.target);
  return Step::kNext;
}

Step EndFor(Execution& e, const Instruction& in) {
  e.Drop(in.pops);
  return Step::kNext;
}

}  // namespace

void AddControlHandlers(HandlerTable& table) {
  table.Add(Opcode::kInvalid, Invalid);
  table.Add(Opcode::kResume, Resume);
  table.Add(Opcode::kReturnValue, ReturnValue);
  table.Add(Opcode::kReturnConst, ReturnConst);
  table.Add(Opcode::kJump, Jump);
  table.Add(Opcode::kJumpBackward, JumpBackward);
  table.Add(Opcode::kPopJumpIfFalse, PopJumpIf<false>);
  table.Add(Opcode::kPopJumpIfTrue, PopJumpIf<true>);
  table.Add(Opcode::kPopJumpIfNone, PopJumpIfNone<true>);
  table.Add(Opcode::kPopJumpIfNotNone, PopJumpIfNone<false>);
  table.Add(Opcode::kJumpIfFalseOrPop, JumpIfOrPop<false>);
  table.Add(Opcode::kJumpIfTrueOrPop, JumpIfOrPop<true>);
  table.Add(Opcode::kGetIter, GetIter);
  table.Add(Opcode::kForIter, ForIter);
  table.Add(Opcode::kEndFor, EndFor);
}

}  // namespace framefuse
