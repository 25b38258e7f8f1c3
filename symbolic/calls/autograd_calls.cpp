#include "symbolic/calls/autograd_calls.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "frame_eval/import_module.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_in_backward.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_rules.h"
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
    const Ref module = ImportModule("torch._C");
    PyObject* found = module ? PyObject_GetAttrString(module, "_FunctionBase") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return base != nullptr && PyType_Check(type.get()) &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.get()), reinterpret_cast<PyTypeObject*>(base));
}

namespace {

Ref ForwardOf(BorrowedRef function) {
  Ref forward = Ref::Steal(PyObject_GetAttrString(function, "forward"));
  if (!forward) PyErr_Clear();
  return forward && PyFunction_Check(forward.get()) ? std::move(forward) : Ref();
}

// As of those that torch makes of the program's for a batch: torch's code runs as it is, and calls the program's.
bool HasForwardOfTorch(BorrowedRef function) {
  const Ref forward = ForwardOf(function);
  return forward && IsTorchCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward.get())));
}

}  // namespace

bool IsFunctionOfProgram(BorrowedRef function) {
  if (!IsAutogradFunction(function)) return false;
  if (!HasForwardOfTorch(function)) return true;
  const Ref forward = ForwardOf(function);
  if (FindKnownFunction(forward) != KnownFunction::kFunctionUnderTransform) return false;
  auto* wrapper = reinterpret_cast<PyFunctionObject*>(forward.get());
  const Py_ssize_t i = IndexInClosure(wrapper, "autograd_function");
  return i >= 0 && IsFunctionOfProgram(PyCell_GET(PyTuple_GET_ITEM(wrapper->func_closure, i)));
}

Value AutogradCalls::ApplyAutogradFunction(Activation& act, BorrowedRef apply, PyTypeObject* function,
                                           absl::Span<const ValueView> args, BorrowedRef kwnames) {
  // Where nothing gets a history it is what its forward does.
  const bool as_operators = fx_.keep_values() && !at::GradMode::is_enabled();
  if (fx_.keep_values() && !as_operators)
    return breaks_.Break(GraphBreakKind::kAutograd, "an autograd.Function in a graph for an FX backend");
  ReadClass(function);
  if (!arguments_.PrepareAll(args)) return Value();
  std::optional<FxJournal::AsOperators> operators;
  if (as_operators) operators.emplace(fx_);
  applied_ = true;
  tracer_.AskLeaves();
  Value result;
  {
    const tracing::FunctionForwardScope forward;
    result = HasForwardOfTorch(reinterpret_cast<PyObject*>(function)) ? natives_.CallTorch(act, apply, args, kwnames)
                                                                      : natives_.CallNative(apply, args, kwnames);
  }
  NoteResults(result.object);
  return result;
}

void AutogradCalls::NoteResults(BorrowedRef results) {
  if (!results || !at::GradMode::is_enabled()) return;
  if (IsFakeTensor(results)) results_.push_back(Ref::Create(results));
  if (!PyTuple_Check(results.get())) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results.get()); ++i) NoteResults(PyTuple_GET_ITEM(results.get(), i));
}

std::optional<Value> AutogradCalls::CallForTransform(Activation& act, BorrowedRef function,
                                                     absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const FxJournal::AsOperators as_operators(fx_);
  if (args.size() >= 2 && IsAutogradFunction(args[1].object)) {  // the operator that applies a class
    if (!c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return std::nullopt;
    ReadClass(reinterpret_cast<PyTypeObject*>(args[1].object.get()));
    applied_ = true;
    tracer_.AskLeaves();
  }
  return natives_.CallTorch(act, function, args, kwnames);
}

void AutogradCalls::ReadClass(PyTypeObject* function) {
  for (const char* name :
       {"forward", "setup_context", "backward", "vjp", "jvp", "_backward_cls", "vmap", "generate_vmap_rule"}) {
    reads_.LookupInType(function, name);
  }
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
    const MadeInBackward made;
    return tracer_.Close(outputs, for_backward, results_);
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
