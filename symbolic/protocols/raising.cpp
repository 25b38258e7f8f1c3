#include "symbolic/protocols/raising.h"

#include "symbolic/calls/call_evaluator.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

Raising::Raising(Journals& journals, NativeProtocols& native, CallEvaluator& calls)
    : frames_(journals.frames()),
      breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      native_(native),
      calls_(calls) {}

Truth Raising::ExceptionMatches(Activation& act, ValueView exception, ValueView type) {
  GuardClassOrder(reads_, exception.object.type());
  return native_.ExceptionMatches(act, exception, type);
}

bool Raising::ExceptionGroupMatch(Activation& act, ValueView exception, ValueView type, Value* match, Value* rest) {
  if (!arguments_.PrepareNative(exception) || !arguments_.PrepareNative(type)) return false;
  GuardClassOrder(reads_, exception.object.type());
  const bool done = boundary_.Run([&] { return native_.ExceptionGroupMatch(act, exception, type, match, rest); });
  return boundary_.Check() && done;
}

Value Raising::PrepareReraiseStar(Activation& act, ValueView original, ValueView results) {
  if (!arguments_.PrepareNative(original) || !arguments_.PrepareNative(results)) return Value();
  return native_.PrepareReraiseStar(act, original, results);
}

// An exception's context is the handled one when it was raised: known only where none was handled before.
bool Raising::BeforeHandling(Activation& act) {
  if (frames_.handles_from_outside()) {
    return breaks_.BreakFalse(GraphBreakKind::kNoRecipe, "an exception caught while another one is being handled");
  }
  reads_.GuardNothingHandled();
  PyObject* raised =
      frame_ops::Slots(act.frame)[frame_ops::SlotCount(frame_ops::Code(act.frame)) + act.stack_depth - 1];
  reads_.GuardNamesIn(raised);
  return true;
}

bool Raising::AfterHandling(Activation&, ValueView previous) {
  reads_.Consume(previous);
  return true;
}

void Raising::Raise(Activation& act, ValueView exception, ValueView cause) {
  const auto instance = [&](ValueView v) {
    if (!v.object || !PyType_Check(v.object.get()) || !PyExceptionClass_Check(v.object.get())) {
      return Value{Ref::Create(v.object), v.source};
    }
    return calls_.MakeException(act, v);
  };
  // Raised before the attempt, it may have been caught in it: each frame that it leaves adds to its traceback.
  const auto is_older = [&] {
    const Ref handled = Ref::Steal(PyErr_GetHandledException());
    return handled && objects_.Find(handled) != nullptr;
  };
  if (!exception.object && (frames_.handles_from_outside() || is_older())) {
    return static_cast<void>(breaks_.Break(GraphBreakKind::kNoRecipe, "raise of the exception that is being handled"));
  }
  if (!exception.object) reads_.GuardNothingHandled();
  if (exception.object) {
    reads_.Consume(exception);
    Tracked* t = objects_.Find(exception.object);
    if (t != nullptr && !PyType_Check(exception.object.get())) {
      return static_cast<void>(
          breaks_.Break(GraphBreakKind::kUnsupportedWrite, "raise of an exception object that existed before"));
    }
  }
  Value raised = instance(exception);
  if (exception.object && !raised) return;
  Value from = instance(cause);
  if (cause.object && !from) return;
  if (cause.object && PyType_Check(cause.object.get()) && !PyExceptionInstance_Check(from.object.get())) {
    return static_cast<void>(
        breaks_.Break(GraphBreakKind::kOpaqueObject, "a cause that is made by a class of exceptions and is none"));
  }
  native_.Raise(act, raised, from);
}

}  // namespace framefuse
