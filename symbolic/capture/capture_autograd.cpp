// torch.autograd.Function: torch's own apply runs on fakes and calls forward, and at the close of the graph the engine
// calls backward; both are captured code. What backward reads, it reads before the program's backward pass begins, so
// it may read what forward left for it and what no program changes, and may write nothing that outlives it.

#include <limits>

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
  if (fx_.keep_values()) return Break(GraphBreakKind::kAutograd, "an autograd.Function in a graph for an FX backend");
  for (const char* name : {"forward", "setup_context", "backward", "vjp", "jvp", "_backward_cls"}) {
    LookupInType(function, name);
  }
  if (!PrepareAll(args)) return Value();
  applied_functions_ = true;
  tracer_.AskLeaves();
  return CallNative(apply, args, kwnames);
}

absl::StatusOr<tracing::TracedGraph> Capture::CloseGraph(absl::Span<const BorrowedRef> outputs) {
  // What an FX backend makes differentiates for itself.
  if (!applied_functions_) return tracer_.Close(outputs, /*for_backward=*/!fx_.keep_values());
  const Control kept = control;
  const std::uint64_t writes = writes_;
  const auto changes = [this] {
    std::size_t count = global_writes_.size() + cached_calls_.size() + tensor_inputs_.size();
    for (const auto& t : tracked_.all()) count += t->writes.size() + (t->replaced ? 1 : 0);
    return count;
  };
  const std::size_t changed = changes();
  control.stop_at = std::numeric_limits<std::uint64_t>::max();
  in_backward_ = true;
  absl::StatusOr<tracing::TracedGraph> graph = tracer_.Close(outputs);
  in_backward_ = false;
  const bool broke = control.unwinding;
  control = kept;
  if (broke) {
    const GraphBreakReason reason = break_->reason;
    break_.reset();
    PyErr_Clear();
    return MakeGraphBreak(
        reason.kind, absl::StrCat(reason.context, " (in a backward function, ", reason.file, ":", reason.line, ")"));
  }
  if (graph.ok() && (writes != writes_ || changed != changes())) {
    return MakeGraphBreak(GraphBreakKind::kAutograd, "a backward function that changes what existed before it");
  }
  return graph;
}

bool Capture::MayReadInBackward(SourceId source) {
  if (!in_backward_ || sources_[source].kind == SourceKind::kConstant) return true;
  if (top_ != nullptr && IsSkippedCode(frame_ops::Code(top_->frame))) return true;  // torch's settings of the class
  return BreakFalse(GraphBreakKind::kAutograd, "a backward function reads a value that may change before it runs");
}

bool Capture::MayWriteInBackward() {
  // What the library writes is its own, as a context manager's; CloseGraph sees whether it existed before.
  if (!in_backward_ || (top_ != nullptr && IsSkippedCode(frame_ops::Code(top_->frame)))) return true;
  return BreakFalse(GraphBreakKind::kAutograd, "a backward function writes to an object");
}

}  // namespace framefuse
