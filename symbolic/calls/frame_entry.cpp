#include "symbolic/calls/frame_entry.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "frame_eval/bytecode/decode.h"
#include "guards/leaf/global_state.h"
#include "guards/leaf/saved_tensor_hooks.h"
#include "guards/leaf/tensor.h"
#include "symbolic/ambient/shown_warnings.h"
#include "symbolic/calls/autograd_calls.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/frames/library_frame.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/frame_stack.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/journals/taken_warnings.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/moving_code.h"
#include "symbolic/tracing/due_warnings.h"
#include "symbolic/tracing/own_python.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

// How a call that began as `completion` says is completed from outside, after a break in it, by what the caller's
// instruction does with the result: not at all where the instruction goes on to use it.
Completion CompletedFrom(const Activation& caller, Completion completion) {
  const CallResult use = CallResultOf(BytecodeOf(frame_ops::Code(caller.frame))->At(caller.instruction));
  const bool drops = completion == Completion::kDrop;
  if (use == CallResult::kUsed || (!drops && use == CallResult::kDropped)) return Completion::kCallback;
  return drops && use != CallResult::kDropped ? Completion::kPushNone : completion;
}

// What torch imports late in the middle of one of its functions has no effect on the program.
PyObject* ImportInLeaf(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  const HookScope native(HookMode::kOff);
  tracing::Tracer::Suspended suspended;
  const FiltersOfProgram filters;
  return frame_ops::EvalDefault(thread, frame, throw_flag);
}

// `frame` is torch's function around the engine: (outputs, *(gradients, retain_graph, create_graph, inputs, …)). The
// engine does not come to the history of an input of the graph where it is asked for others.
bool MayLeadToAskedThroughHistory(const tracing::Tracer& tracer, frame_ops::Frame* frame) {
  constexpr Py_ssize_t kAsked = 3;
  const BorrowedRef outputs(frame_ops::Slots(frame)[0]);
  const BorrowedRef arguments(frame_ops::Slots(frame)[1]);
  if (!PyTuple_Check(outputs.get()) || !PyTuple_Check(arguments.get())) return true;
  if (PyTuple_GET_SIZE(arguments.get()) <= kAsked) return true;
  const BorrowedRef asked(PyTuple_GET_ITEM(arguments.get(), kAsked));
  if (!PyTuple_Check(asked.get())) return true;
  return PyTuple_GET_SIZE(asked.get()) > 0 && tracer.MayReachThroughHistory(outputs, asked);
}

// Null: it is taken into the graph. A gradient for an input with a history is found out when it comes there.
const char* WhyNoBackwardPass(bool for_fx, const std::vector<TensorInput>& inputs, const tracing::Tracer& tracer,
                              frame_ops::Frame* frame) {
  if (for_fx && c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) {
    return "a gradient that torch.func takes, in a graph for an FX backend; a built-in one takes it";
  }
  const auto has_hooks = [](const TensorInput& t) { return HasGradientHooks(t.real) && !HasHistory(t.real); };
  if (std::any_of(inputs.begin(), inputs.end(), has_hooks)) {
    return "a backward pass, and an input has hooks for its gradient";
  }
  if (MayLeadToAskedThroughHistory(tracer, frame)) {
    return "a backward pass to an input, and the history of another may lead there";
  }
  return nullptr;
}

bool IsFinaliser(PyCodeObject* code) { return PyUnicode_CompareWithASCIIString(code->co_name, "__del__") == 0; }

}  // namespace

FrameEntry::FrameEntry(Journals& journals, Protocols& meaning, PyThreadState* thread)
    : frames_(journals.frames()),
      tracer_(journals.tracer()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      writes_(journals.writes()),
      warning_(journals.options().warning),
      all_frames_(journals.options().all_frames),
      meaning_(meaning),
      thread_(thread) {}

PyObject* FrameEntry::OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  PyCodeObject* code = frame_ops::Code(frame);
  const bool starting_generator = frame_ops::IsStarting(frame) && frame_ops::IsGeneratorCode(code);
  if (throw_flag != 0 && frame_ops::IsGenerator(frame) && !tracing::InOwnPython() && !BelongsToTorchLeaf(frame)) {
    return ThrowIntoGenerator(frame);
  }
  const BorrowedRef function(reinterpret_cast<PyObject*>(frame_ops::Function(frame)));
  if (boundary_.depth().native > 0 && FindKnownFunction(function) == KnownFunction::kEngine) {
    tracer_.AskLeaves();
    if (SavedTensorHooksNow() == SavedTensorHooks::kKeep) {
      // In eager it runs the checkpoint's function again, as far as it has come.
      return BreakAsItStarts(frame, GraphBreakKind::kCheckpoint, "a backward pass inside of one");
    }
    const auto is_hook = [](const CachedCall& call) { return call.history != nullptr; };
    if (std::any_of(writes_.calls().begin(), writes_.calls().end(), is_hook)) {
      return BreakAsItStarts(frame, GraphBreakKind::kAutograd,
                             "a backward pass, behind a hook on a tensor of the graph");
    }
    if (const char* why = WhyNoBackwardPass(fx_.keep_values(), objects_.tensor_inputs(), tracer_, frame)) {
      return BreakAsItStarts(frame, GraphBreakKind::kAutograd, why);
    }
    fx_.NoteBackwardPass();
  }
  const bool called_by_engine = backward_.running() && tracer_.RecordsBackward();
  if (const char* why = RefusalOfShardingCode(code)) {
    return BreakAsItStarts(frame, GraphBreakKind::kUnsupportedOperator, why);
  }
  if (boundary_.depth().leaf > 0 && IsImportCode(code)) return ImportInLeaf(thread, frame, throw_flag);
  const bool below = boundary_.depth().leaf > 0 || called_by_engine;  // runs as it is, with all that it calls
  if (!tracing::InOwnPython() && (below ? IsShardingCode(code) : IsShardingDispatch(code))) {
    const tracing::OwnPythonScope own;
    return frame_ops::EvalDefault(thread, frame, throw_flag);
  }
  if ((boundary_.depth().native == 0 && !called_by_engine) || throw_flag != 0 || tracing::InOwnPython() ||
      IsFinaliser(code) || BelongsToTorchLeaf(frame)) {
    if (const std::optional<PyObject*> done = RunShardingFrame(thread, frame, throw_flag)) return *done;
    if (boundary_.depth().leaf > 0 && DescribesWarning(frame)) fx_.NoteFrame();  // the graph's call would warn again
    std::optional<FiltersOfProgram> filters;
    if (tracing::InOwnPython() || IsFinaliser(code)) filters.emplace();
    return frame_ops::EvalDefault(thread, frame, throw_flag);
  }
  if (ShowsWarning(code) && DeferWarning(frame)) {
    frame_ops::FinishHookedFrame(thread, frame);
    return Py_NewRef(Py_None);
  }
  if (BreaksAsItStarts(frame)) {
    // Torch loses the result that it has made where a warning fails: it is let pass, and the attempt ends behind it.
    frame_ops::FinishHookedFrame(thread, frame);
    return ShowsWarning(code) ? (PyErr_Clear(), Py_NewRef(Py_None)) : nullptr;
  }
  ExpectedCall call = std::exchange(expected_, ExpectedCall());
  if (call.function != reinterpret_cast<PyObject*>(frame_ops::Function(frame))) call = ExpectedCall();
  Activation act = ActivationOf(frame, call);
  if (frame_ops::IsStarting(frame) && !PrepareFrameSlots(act, call)) {
    frame_ops::FinishHookedFrame(thread, frame);
    return nullptr;
  }
  return starting_generator ? frame_ops::EvalDefault(thread, frame, throw_flag) : EvaluateFrame(act, StartAt::kNext);
}

Activation FrameEntry::ActivationOf(frame_ops::Frame* frame, const ExpectedCall& call) const {
  PyCodeObject* code = frame_ops::Code(frame);
  Activation act;
  act.frame = frame;
  act.parent = frames_.top();
  act.completion = frame_ops::IsGenerator(frame) ? Completion::kCallback : call.completion;
  if (act.completion != Completion::kCallback && act.parent != nullptr) {
    act.completion = boundary_.catching() ? Completion::kCallback : CompletedFrom(*act.parent, act.completion);
  }
  act.pending_result = call.pending;
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  act.stack_depth = frame_ops::StackDepth(frame);
  return act;
}

PyObject* FrameEntry::BreakAsItStarts(frame_ops::Frame* frame, GraphBreakKind kind, const char* why) {
  Value none = breaks_.Break(kind, why);
  frame_ops::FinishHookedFrame(thread_, frame);
  return none.object.release();
}

bool FrameEntry::DeferWarning(frame_ops::Frame* show) {
  if (warning_ == nullptr || backward_.running() || tracer_.in_branch()) return false;
  if (tracer_.RecordsBackward()) return false;
  if (!all_frames_ && frames_.all().size() > 1) {  // which frame a warning is about is counted in frames
    return static_cast<bool>(breaks_.NeedFrames());
  }
  std::optional<DeferredWarning> taken = TakeWarning(thread_, show, frames_, reads_);
  if (!taken || warning_->IsRefuted(taken->code, taken->instruction)) return false;
  const FiltersOfProgram filters;
  if (FirstThatIsHeard(absl::MakeConstSpan(&*taken, 1), {})) return false;
  // An FX graph would resize the result again, and warn, if it had the call.
  const bool is_said_again = fx_.keep_values() && tracing::IsOfResized(PyUnicode_AsUTF8(taken->text.get()));
  if (is_said_again && !fx_.NoteWarning()) return false;
  return writes_.AddWarning(*std::move(taken));
}

bool FrameEntry::BreaksAsItStarts(frame_ops::Frame* frame) {
  PyCodeObject* code = frame_ops::Code(frame);
  // One of a dropped attempt would warn that nobody awaited it.
  if (frame_ops::IsStarting(frame) && (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0) {
    const Activation* caller = frames_.top();
    const bool awaits = caller != nullptr && caller->completion == Completion::kRoot &&
                        (frame_ops::Code(caller->frame)->co_flags & CO_COROUTINE) != 0;
    return !breaks_.BreakFalse(awaits ? GraphBreakKind::kSuspends : GraphBreakKind::kAsync, "a coroutine is made");
  }
  // As annotationlib calls what computes annotations: with names of its own, copied without a guard.
  if (frame_ops::IsStarting(frame) && !PyDict_CheckExact(frame_ops::Globals(frame))) {
    return !breaks_.BreakFalse(GraphBreakKind::kOpaqueObject, "globals that are no dict");
  }
  if (!ShowsWarning(code)) return false;
  for (const Activation* f : frames_.all()) ForgetWarning(frame, frame_ops::Globals(f->frame));
  return !breaks_.BreakFalse(GraphBreakKind::kSideEffectCall, "a warning");
}

// close(), throw() and the death of a suspended generator, also where no C code was called: its handlers are
// captured code too.
PyObject* FrameEntry::ThrowIntoGenerator(frame_ops::Frame* frame) {
  PyCodeObject* code = frame_ops::Code(frame);
  Activation act;
  act.frame = frame;
  act.parent = frames_.top();
  act.completion = Completion::kCallback;
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  act.stack_depth = frame_ops::StackDepth(frame);
  return EvaluateFrame(act, StartAt::kThrow);
}

PyObject* FrameEntry::EvaluateFrame(Activation& act, StartAt start) {
  PyThreadState* thread = thread_;
  frame_ops::Frame* frame = act.frame;
  fx_.NoteFrame();
  const FiltersOfProgram filters;
  const NativeBoundary::Depth outer = boundary_.Enter();
  frames_.Push(&act);
  Ref handled = frame_ops::HandledException(thread);
  RunResult result = Evaluate(thread, act, meaning_, start);
  if (result.outcome == Outcome::kUnwound) {
    frame_ops::SetHandledException(thread, std::move(handled));
    if (!frame_ops::IsGenerator(frame)) FrameStack::DropSlots(frame);
  }
  frames_.Pop();
  boundary_.Leave(outer);
  reads_.Move(result.value);  // the caller gets the object without its source
  if (result.value.object && !HandBack(result.value.object)) result.value = Value();
  if (result.outcome == Outcome::kUnwound) {
    BreakController::SetUnwindError();
    // close() takes this error for its end; any other would be reported as unraisable.
    if (start == StartAt::kThrow) PyErr_SetNone(PyExc_GeneratorExit);
  }
  if (result.outcome != Outcome::kYielded) frame_ops::FinishHookedFrame(thread, frame);
  return result.value.object.release();
}

bool FrameEntry::HandBack(BorrowedRef result) {
  const NativeBoundary::Depth& caller = boundary_.depth();
  if (caller.receiver && OnlyMoves(caller.receiver)) return true;
  const ValueView value(result, kNoSource);
  if (caller.leaf > 0 || caller.native == 0) return arguments_.PrepareForTorch(absl::MakeConstSpan(&value, 1));
  return arguments_.PrepareNative(value);
}

// Defaults, closure cells and keyword values reach a frame without a load: they are adopted here.
bool FrameEntry::PrepareFrameSlots(Activation& act, const ExpectedCall& call) {
  PyFunctionObject* function = frame_ops::Function(act.frame);
  auto* object = reinterpret_cast<PyObject*>(function);
  PyCodeObject* code = frame_ops::Code(act.frame);
  if (objects_.IsFreshFunction(object)) return true;
  Tracked* known = objects_.Find(object);
  const SourceId source = known != nullptr ? known->source : reads_.ConstantSource(object);
  PyObject** slots = frame_ops::Slots(act.frame);
  const std::size_t positional = std::min<std::size_t>(call.args.size(), static_cast<std::size_t>(code->co_argcount));
  for (std::size_t i = 0; i < positional; ++i) {
    if (slots[i] == call.args[i].object.get()) act.sources[i] = call.args[i].source;
  }
  const auto adopt = [&](int slot, SourceId from) {
    Value v = objects_.Adopt(slots[slot], from);
    if (!v) return false;
    Py_SETREF(slots[slot], v.object.release());
    act.sources[static_cast<std::size_t>(slot)] = v.source;
    return true;
  };
  if (PyObject* defaults = function->func_defaults) {
    const int count = static_cast<int>(PyTuple_GET_SIZE(defaults));
    const int first = code->co_argcount - count;
    for (int i = static_cast<int>(positional); i < code->co_argcount; ++i) {
      if (i < first || slots[i] != PyTuple_GET_ITEM(defaults, i - first)) continue;
      if (!adopt(i, reads_.sources().Intern(SourceKind::kDefault, source, i - first, nullptr))) return false;
    }
  }
  if (PyObject* defaults = function->func_kwdefaults) {
    Ref varnames = Ref::Steal(PyCode_GetVarnames(code));
    for (int i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; ++i) {
      PyObject* name = PyTuple_GET_ITEM(varnames.get(), i);
      if (slots[i] == nullptr || slots[i] != PyDict_GetItemWithError(defaults, name)) continue;
      if (!adopt(i, reads_.sources().Intern(SourceKind::kKwDefault, source, 0, name))) return false;
    }
  }
  if (PyObject* closure = function->func_closure) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      const SourceId cell =
          reads_.sources().Intern(SourceKind::kFunctionCell, source, static_cast<std::int32_t>(i), nullptr);
      if (!objects_.Adopt(PyTuple_GET_ITEM(closure, i), cell)) return false;
    }
  }
  return true;
}

bool FrameEntry::BelongsToTorchLeaf(frame_ops::Frame* frame) const {
  // Torch's code calls the standard library's for itself: what it says of types, keeps in caches or wraps in contexts.
  PyCodeObject* code = frame_ops::Code(frame);
  if (expected_.function == reinterpret_cast<PyObject*>(frame_ops::Function(frame))) return false;  // a class's body
  if (boundary_.depth().leaf == 0) return false;
  const BorrowedRef function(reinterpret_cast<PyObject*>(frame_ops::Function(frame)));
  if (FindKnownFunction(function) == KnownFunction::kFunctionApply) {
    return !frame_ops::IsStarting(frame) || !IsFunctionOfProgram(frame_ops::Slots(frame)[0]);
  }
  if (IsGeneratedByTorch(frame)) return true;
  // Torch loses the result that it has made where a warning fails: no break may come up from its description.
  return (IsSkippedCode(code) && !IsWarningsCode(code)) || IsTypingCode(code) || DescribesWarning(frame);
}

}  // namespace framefuse
