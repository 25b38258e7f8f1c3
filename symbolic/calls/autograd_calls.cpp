#include "symbolic/calls/autograd_calls.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

AutogradCalls::AutogradCalls(Journals& journals, NativeCalls& natives)
    : tracer_(journals.tracer()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      natives_(natives) {}

bool IsAutogradFunction(BorrowedRef type) {
  static PyObject* const base = [] {
    const Ref module = Ref::Steal(PyImport_ImportModule("torch._C"));
    PyObject* found = module ? PyObject_GetAttrString(module, "_FunctionBase") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return base != nullptr && PyType_Check(type.get()) &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.get()), reinterpret_cast<PyTypeObject*>(base));
}

Value AutogradCalls::ApplyAutogradFunction(BorrowedRef apply, PyTypeObject* function, absl::Span<const ValueView> args,
                                           BorrowedRef kwnames) {
  if (fx_.keep_values())
    return breaks_.Break(GraphBreakKind::kAutograd, "an autograd.Function in a graph for an FX backend");
  for (const char* name : {"forward", "setup_context", "backward", "vjp", "jvp", "_backward_cls"}) {
    reads_.LookupInType(function, name);
  }
  if (!arguments_.PrepareAll(args)) return Value();
  applied_ = true;
  tracer_.AskLeaves();
  const tracing::FunctionForwardScope forward;
  return natives_.CallNative(apply, args, kwnames);
}

absl::StatusOr<tracing::TracedGraph> AutogradCalls::CloseGraph(absl::Span<const BorrowedRef> outputs) {
  // What an FX backend makes differentiates for itself, if there is anything left to differentiate.
  const bool for_backward = !fx_.keep_values() || fx_.backward_pass() >= 0;
  if (!applied_) return tracer_.Close(outputs, for_backward);
  const WriteJournal::Counts effects = writes_.CountEffects();
  const std::size_t inputs = objects_.tensor_inputs().size();
  const Control kept = breaks_.BeginApart();
  absl::StatusOr<tracing::TracedGraph> graph = [&] {
    const BackwardPhase::Scope backward(backward_);
    return tracer_.Close(outputs);
  }();
  if (const std::optional<GraphBreakReason> broke = breaks_.EndApart(kept)) {
    return MakeGraphBreak(
        broke->kind, absl::StrCat(broke->context, " (in a backward function, ", broke->file, ":", broke->line, ")"));
  }
  if (graph.ok() && (!(effects == writes_.CountEffects()) || inputs != objects_.tensor_inputs().size())) {
    return MakeGraphBreak(GraphBreakKind::kAutograd, "a backward function that changes what existed before it");
  }
  return graph;
}

}  // namespace framefuse
