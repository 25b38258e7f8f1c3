// Calls, functions, intrinsics.
#include "symbolic/evaluator/handler_table.h"
#include "symbolic/evaluator/native_errors.h"

namespace framefuse {
namespace {

// `above` entries lie over the arguments.
Step CallWith(Execution& e, const Instruction& in, BorrowedRef kwnames, int above) {
  const int pops = in.arg + 2 + above;
  // One of the two lowest entries may be null; a self is the first argument.
  const bool with_self = e.Peek(kNullOverCallable ? pops - 1 : pops) != nullptr;
  const int callable = kNullOverCallable || with_self ? pops : pops - 1;
  const int first = with_self ? pops - 1 : pops - 2;
  Value result;
  {
    const Operands args(e, first, first - above);
    result = e.protocols.Call(e.act, e.View(callable), args, kwnames);
  }
  const Step step = e.Replace(pops, std::move(result));
  return step == Step::kNext ? e.ServePendingWork() : step;
}

Step Call(Execution& e, const Instruction& in) {
  return CallWith(e, in, in.kwnames < 0 ? nullptr : PyTuple_GET_ITEM(e.code->co_consts, in.kwnames), 0);
}

Step CallKw(Execution& e, const Instruction& in) { return CallWith(e, in, e.Peek(1), 1); }

Step CallFunctionEx(Execution& e, const Instruction& in) {
  const int kwargs = in.arg & 1;
  const int callable = (kNullOverCallable ? 3 : 2) + kwargs;
  Value result = e.protocols.CallEx(e.act, e.View(callable), e.View(1 + kwargs), kwargs != 0 ? e.View(1) : ValueView());
  const Step step = e.Replace(3 + kwargs, std::move(result));
  return step == Step::kNext ? e.ServePendingWork() : step;
}

Step MakeFunction(Execution& e, const Instruction& in) {
  int from_top = 2;
  const auto part = [&](int flag) { return (in.arg & flag) != 0 ? e.View(from_top++) : ValueView(); };
  const ValueView closure = part(8);
  const ValueView annotations = part(4);
  const ValueView kwdefaults = part(2);
  const ValueView defaults = part(1);
  return e.Replace(in.pops, e.protocols.MakeFunction(e.act, e.Peek(1), defaults, kwdefaults, annotations, closure));
}

// [value, function]
Step SetFunctionAttribute(Execution& e, const Instruction& in) {
  if (!e.protocols.SetFunctionAttribute(e.act, e.Peek(1), in.arg, e.View(2))) return Step::kError;
  std::swap(e.Peek(1), e.Peek(2));
  std::swap(e.PeekSource(1), e.PeekSource(2));
  e.Drop(1);
  return Step::kNext;
}

Step StopIterationError(Execution& e) {
  Ref error = ConvertStopIteration(e.code->co_flags, e.Peek(1));
  return e.Replace(1, {std::move(error), kNoSource});
}

Step CallIntrinsic1(Execution& e, const Instruction& in) {
  switch (in.arg) {
    case kIntrinsicImportStar: {
      const Step step = e.Done(e.protocols.ImportStar(e.act, e.View(1)), 1);
      if (step == Step::kNext) e.PushCopy(Py_None, kNoSource);
      return step;
    }
    case kIntrinsicStopIterationError:
      return StopIterationError(e);
    case kIntrinsicUnaryPositive:
      return e.Replace(1, e.protocols.Unary(e.act, UnaryOp::kPositive, e.View(1)));
    case kIntrinsicListToTuple:
      return e.Replace(1, e.protocols.ListToTuple(e.act, e.View(1)));
    default:
      return e.Replace(1, e.protocols.Intrinsic1(e.act, in.arg, e.View(1)));
  }
}

Step CallIntrinsic2(Execution& e, const Instruction& in) {
  if (in.arg == kIntrinsicPrepReraiseStar) {
    return e.Replace(2, e.protocols.PrepareReraiseStar(e.act, e.View(2), e.View(1)));
  }
  return e.Replace(2, e.protocols.Intrinsic2(e.act, in.arg, e.View(2), e.View(1)));
}

Step PrintExpr(Execution& e, const Instruction&) {
  const Value none = e.protocols.Intrinsic1(e.act, kIntrinsicPrint, e.View(1));
  return e.Done(static_cast<bool>(none), 1);
}

}  // namespace

void AddCallHandlers(HandlerTable& table) {
  table.Add(Opcode::kCall, Call);
  table.Add(Opcode::kCallKw, CallKw);
  table.Add(Opcode::kCallFunctionEx, CallFunctionEx);
  table.Add(Opcode::kMakeFunction, MakeFunction);
  table.Add(Opcode::kSetFunctionAttribute, SetFunctionAttribute);
  table.Add(Opcode::kCallIntrinsic1, CallIntrinsic1);
  table.Add(Opcode::kCallIntrinsic2, CallIntrinsic2);
  table.Add(Opcode::kPrintExpr, PrintExpr);
}

}  // namespace framefuse
