// torch.autograd.Function: torch's own apply runs on fakes and calls forward, and at the close of the graph the engine
// calls backward; both are captured code. What backward reads, it reads before the program's backward pass begins, so
// it may read what forward left for it and what no program changes, and may write nothing that outlives it.

#include "absl/strings/str_cat.h"
#include "symbolic/capture/capture.h"

namespace framefuse {

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

Value Capture::ApplyAutogradFunction(BorrowedRef apply, PyTypeObject* function, absl::Span<const ValueView> args,
                                     BorrowedRef kwnames) {
  if (fx_.keep_values())
    return breaks_.Break(GraphBreakKind::kAutograd, "an autograd.Function in a graph for an FX backend");
  for (const char* name : {"forward", "setup_context", "backward", "vjp", "jvp", "_backward_cls"}) {
    reads_.LookupInType(function, name);
  }
  if (!arguments_.PrepareAll(args)) return Value();
  applied_functions_ = true;
  tracer_.AskLeaves();
  return CallNative(apply, args, kwnames);
}

absl::StatusOr<tracing::TracedGraph> Capture::CloseGraph(absl::Span<const BorrowedRef> outputs) {
  // What an FX backend makes differentiates for itself.
  if (!applied_functions_) return tracer_.Close(outputs, /*for_backward=*/!fx_.keep_values());
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
