// `try`, `with`, `raise`, exception groups.
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {
namespace {

// Raises the value on top again, popping it; it has its traceback.
Step RaiseTop(Execution& e) {
  Ref exception = Ref::Steal(e.Peek(1));
  --e.act.stack_depth;
  frame_ops::RestoreRaised(e.thread, std::move(exception));
  return Step::kReraise;
}

Step PushExcInfo(Execution& e, const Instruction&) {
  if (!e.protocols.BeforeHandling(e.act)) return Step::kError;
  Ref handled = frame_ops::HandledException(e.thread);
  PyObject* raised = e.Peek(1);
  frame_ops::SetHandledException(e.thread, Ref::Create(raised));
  const SourceId source = e.PeekSource(1);
  e.Peek(1) = handled ? handled.release() : Py_NewRef(Py_None);
  e.PeekSource(1) = kNoSource;
  e.Push(raised, source);
  return Step::kNext;
}

Step PopExcept(Execution& e, const Instruction&) {
  if (!e.protocols.AfterHandling(e.act, e.View(1))) return Step::kError;
  Ref handled = Ref::Steal(e.Peek(1));
  --e.act.stack_depth;
  frame_ops::SetHandledException(e.thread, std::move(handled));
  return Step::kNext;
}

Step CheckExcMatch(Execution& e, const Instruction&) {
  return e.PushBool(e.protocols.ExceptionMatches(e.act, e.View(2), e.View(1)), 1);
}

Step CheckEgMatch(Execution& e, const Instruction&) {
  Value match, rest;
  if (!e.protocols.ExceptionGroupMatch(e.act, e.View(2), e.View(1), &match, &rest)) {
    return Step::kError;
  }
  e.Drop(2);
  if (match.object.get() != Py_None) frame_ops::SetHandledException(e.thread, match.object);
  e.Push(std::move(rest));
  e.Push(std::move(match));
  return Step::kNext;
}

Step PrepReraiseStar(Execution& e, const Instruction&) {
  return e.Replace(2, e.protocols.PrepareReraiseStar(e.act, e.View(2), e.View(1)));
}

Step Reraise(Execution& e, const Instruction& in) {
  if (in.arg != 0) {
    PyObject* last_instruction = e.Peek(in.arg + 1);
    if (!PyLong_Check(last_instruction)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Step::kError;
    }
    frame_ops::SetLastInstruction(e.act.frame, static_cast<int>(PyLong_AsLong(last_instruction)));
  }
  return RaiseTop(e);
}

Step RaiseVarargs(Execution& e, const Instruction& in) {
  const ValueView exception = in.arg >= 1 ? e.View(in.arg) : ValueView();
  const ValueView cause = in.arg == 2 ? e.View(1) : ValueView();
  // A bare `raise` of a handled exception adds no traceback entry.
  const bool again = in.arg == 0 && Ref::Steal(PyErr_GetHandledException()).get() != nullptr;
  e.protocols.Raise(e.act, exception, cause);
  return again ? Step::kReraise : Step::kError;
}

Step BeforeWith(Execution& e, const Instruction&) {
  Value exit, entered;
  if (!e.protocols.BeforeWith(e.act, e.View(1), &exit, &entered)) return Step::kError;
  e.Drop(1);
  e.Push(std::move(exit));
  e.Push(std::move(entered));
  return Step::kNext;
}

// A bound method without a self of its own, as a call takes it.
Step LoadSpecial(Execution& e, const Instruction& in) {
  const auto which = static_cast<frame_ops::SpecialMethod>(in.arg);
  const bool is_async = which == frame_ops::SpecialMethod::kAsyncEnter || which == frame_ops::SpecialMethod::kAsyncExit;
  if (is_async && !e.protocols.Unsupported(e.act, NameOf(in.opcode))) return Step::kError;
  Value method = is_async ? Value{frame_ops::LoadSpecialMethod(e.Peek(1), which), kNoSource}
                          : e.protocols.LoadSpecial(e.act, e.View(1), which);
  if (!method) return Step::kError;
  e.Drop(1);
  e.PushCallable(std::move(method), {});
  return Step::kNext;
}

// [exit, its self, last instruction, handled before, raised], up to 3.13 without the self
Step WithExceptStart(Execution& e, const Instruction&) {
  PyObject* raised = e.Peek(1);
  Ref traceback = Ref::Steal(PyException_GetTraceback(raised));
  const ValueView exit = e.View(kExitHasSelf ? 5 : 4);
  const ValueView self = kExitHasSelf ? e.View(4) : ValueView();
  return e.Replace(0, e.protocols.CallExit(e.act, exit, self, PyExceptionInstance_Class(raised), raised,
                                           traceback ? traceback.get() : Py_None));
}

Step CleanupThrow(Execution& e, const Instruction&) {
  if (!PyErr_GivenExceptionMatches(e.Peek(1), PyExc_StopIteration)) return RaiseTop(e);
  PyObject* value = reinterpret_cast<PyStopIterationObject*>(e.Peek(1))->value;
  Value result{Ref::Create(value), kNoSource};
  e.Drop(3);
  e.PushCopy(Py_None, kNoSource);
  e.Push(std::move(result));
  return Step::kNext;
}

Step EndAsyncFor(Execution& e, const Instruction&) {
  if (!PyErr_GivenExceptionMatches(e.Peek(1), PyExc_StopAsyncIteration)) return RaiseTop(e);
  e.Drop(2);
  return Step::kNext;
}

}  // namespace

void AddExceptionHandlers(HandlerTable& table) {
  table.Add(Opcode::kPushExcInfo, PushExcInfo);
  table.Add(Opcode::kPopExcept, PopExcept);
  table.Add(Opcode::kCheckExcMatch, CheckExcMatch);
  table.Add(Opcode::kCheckEgMatch, CheckEgMatch);
  table.Add(Opcode::kPrepReraiseStar, PrepReraiseStar);
  table.Add(Opcode::kReraise, Reraise);
  table.Add(Opcode::kRaiseVarargs, RaiseVarargs);
  table.Add(Opcode::kBeforeWith, BeforeWith);
  table.Add(Opcode::kLoadSpecial, LoadSpecial);
  table.Add(Opcode::kWithExceptStart, WithExceptStart);
  table.Add(Opcode::kCleanupThrow, CleanupThrow);
  table.Add(Opcode::kEndAsyncFor, EndAsyncFor);
}

}  // namespace framefuse
