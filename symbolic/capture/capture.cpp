#include "symbolic/capture/capture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "frame_eval/bytecode/decode.h"
#include "guards/leaf/global_state.h"
#include "guards/leaf/tensor.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/library_frame.h"
#include "symbolic/capture/shown_warnings.h"
#include "symbolic/capture/signal_pause.h"

namespace framefuse {
namespace {

constexpr std::uint64_t kInstructionsToCheckpoint = 1 << 16;
// An attempt that gets longer breaks where it stands; a model of a thousand operators takes a tenth of this.
constexpr std::uint64_t kMaxInstructions = 1 << 20;
constexpr std::uint64_t kMaxIdleInstructions = 1 << 18;  // without a tensor operation
constexpr int kMaxNodes = 20'000;

// Python sees this only if C code looks at the error of an unwinding run; nothing can catch it for good,
// because control.unwinding stays set.
void SetUnwindError() {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "framefuse: the capture is unwinding");
}

bool IsGeneratorCode(PyCodeObject* code) {
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

// A frame that was unwound keeps nothing alive, also where a traceback keeps the frame.
void DropSlots(frame_ops::Frame* frame) {
  PyObject** slots = frame_ops::Slots(frame);
  const int live = frame_ops::SlotCount(frame_ops::Code(frame)) + frame_ops::StackDepth(frame);
  for (int i = 0; i < live; ++i) Py_CLEAR(slots[i]);
}

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

// Null: it is taken into the graph. A gradient for an input with a history is found out when it comes there.
const char* WhyNoBackwardPass(bool for_fx, const std::vector<Capture::TensorInput>& inputs) {
  if (for_fx) return "a backward pass in a graph for an FX backend; a built-in one takes it";
  const auto has_hooks = [](const Capture::TensorInput& t) { return HasGradientHooks(t.real) && !HasHistory(t.real); };
  return std::any_of(inputs.begin(), inputs.end(), has_hooks)
             ? "a backward pass, and an input has hooks for its gradient"
             : nullptr;
}

bool IsFinaliser(PyCodeObject* code) { return PyUnicode_CompareWithASCIIString(code->co_name, "__del__") == 0; }

}  // namespace

GraphBreakKind BreakKindOf(const tracing::TensorBreak& b) {
  switch (b.kind) {
    case tracing::BreakKind::kDataDependent:
      return GraphBreakKind::kTensorToPython;
    case tracing::BreakKind::kRealTensor:
    case tracing::BreakKind::kUnsupportedTensor:
    case tracing::BreakKind::kStaleTensor:
      return GraphBreakKind::kUnsupportedTensor;
    case tracing::BreakKind::kMetadataMutation:
    case tracing::BreakKind::kMutation:
      return GraphBreakKind::kTensorMutation;
    case tracing::BreakKind::kWarning:
      return GraphBreakKind::kSideEffectCall;
    case tracing::BreakKind::kHiddenState:
    case tracing::BreakKind::kNoShapeRule:
      return GraphBreakKind::kUnsupportedOperator;
  }
  return GraphBreakKind::kUnsupportedOperator;
}

Capture::Capture(PyThreadState* thread, frame_ops::Frame* real_frame, const CaptureOptions& options)
    : thread_(thread),
      real_frame_(real_frame),
      options_(options),
      guards_(&sources_),
      fx_(options.fx, tracer_),
      origins_(options.fx) {
  constexpr std::size_t kExpectedLookups = 96;  // of a small model
  type_lookups_.reserve(kExpectedLookups);
  control.serves_pending_work = false;
  start_state_ = TorchState::Current();
  guards_.AddGlobalState();
  tracer_.SetOriginProvider(this);
  next_checkpoint_ = kInstructionsToCheckpoint;
  SetStop(options_.break_at >= 0 ? static_cast<std::uint64_t>(options_.break_at) : Control().stop_at);
}

Capture::~Capture() {
  // A generator that dies with the attempt runs no code: its frame unwinds.
  control.unwinding = true;
  const HookScope hook(HookMode::kCapture, this);
  tracked_ = TrackedTable();
  global_writes_.clear();
  global_reads_.clear();
  fx_.Clear();
  end_exception_.reset();
  type_lookups_.clear();
  fresh_dicts_.clear();
  classes_.TakeApart();
}

RunResult Capture::Run(const std::optional<CapturePosition>& stop) {
  stop_ = stop;
  if (stop_) SetStop(stop_->executed);
  if (track_rebuildable_) SetStop(0);
  frame_ops::Frame* copy = frame_ops::CopyFrame(thread_, real_frame_);
  PyCodeObject* code = frame_ops::Code(copy);
  Activation act;
  act.frame = copy;
  act.completion = Completion::kRoot;
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  act.stack_depth = frame_ops::StackDepth(copy);
  PyObject** slots = frame_ops::Slots(copy);
  const int live = frame_ops::SlotCount(code) + act.stack_depth;
  // An unbound local is as it was until something writes it: in another call it may be bound.
  for (int i = 0; i < live; ++i) {
    const bool local = i < frame_ops::SlotCount(code) && !IsCellSlot(code, i);
    if (slots[i] != nullptr || local) act.sources[static_cast<std::size_t>(i)] = kUnadopted;
  }
  origins_.NoteCode(code);
  root_ = &act;
  top_ = &act;
  frames_.push_back(&act);
  // The closure's cells reach the frame by COPY_FREE_VARS, without a load.
  PyObject* closure = frame_ops::IsStarting(copy) ? frame_ops::Function(copy)->func_closure : nullptr;
  for (Py_ssize_t i = 0; closure != nullptr && i < PyTuple_GET_SIZE(closure); ++i) {
    Adopt(PyTuple_GET_ITEM(closure, i),
          sources_.Intern(SourceKind::kClosureCell, kNoSource, static_cast<std::int32_t>(i), nullptr));
  }
  // Stack entries move between slots before anything looks at them; locals are adopted where they are loaded.
  for (int i = frame_ops::SlotCount(code); i < live; ++i) {
    if (slots[i] != nullptr) AdoptSlot(act, i);
  }
  start_exception_ = frame_ops::HandledException(thread_);
  const Ref handled = Ref::Steal(PyErr_GetHandledException());
  handles_from_outside_ = static_cast<bool>(handled);
  if (const char* what = InterceptorAtStart()) Break(GraphBreakKind::kIntercepted, what);
  // What stands on the stack already may be nothing that a capture takes.
  evaluated_ = !control.unwinding;
  RunResult result{Outcome::kUnwound, Value()};
  if (evaluated_) result = Evaluate(thread_, act, *this, StartAt::kNext);
  if (result.outcome != Outcome::kReturned) DropSlots(copy);
  last_root_instruction_ = act.instruction;
  left_modes_ = left_modes_ || modes_.open() > 0;
  modes_.Restore();
  end_exception_ = frame_ops::HandledException(thread_);
  frame_ops::SetHandledException(thread_, start_exception_);
  frames_.pop_back();
  root_ = nullptr;
  top_ = nullptr;
  frame_ops::ClearAndPopFrame(thread_, copy);
  return result;
}

PyObject* Capture::OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  PyCodeObject* code = frame_ops::Code(frame);
  const bool starting_generator = frame_ops::IsStarting(frame) && IsGeneratorCode(code);
  if (throw_flag != 0 && frame_ops::IsGenerator(frame) && !tracing::Tracer::InOwnPython() &&
      !BelongsToTorchLeaf(frame)) {
    return ThrowIntoGenerator(frame);
  }
  const BorrowedRef function(reinterpret_cast<PyObject*>(frame_ops::Function(frame)));
  if (native_depth_ > 0 && FindKnownFunction(function) == KnownFunction::kEngine) {
    tracer_.AskLeaves();
    if (const char* why = WhyNoBackwardPass(fx_.keep_values(), tensor_inputs_)) {
      Break(GraphBreakKind::kAutograd, why);
      frame_ops::FinishHookedFrame(thread, frame);
      return nullptr;
    }
  }
  const bool called_by_engine = in_backward_ && tracer_.RecordsBackward();
  if (leaf_depth_ > 0 && IsImportCode(code)) return ImportInLeaf(thread, frame, throw_flag);
  if ((native_depth_ == 0 && !called_by_engine) || throw_flag != 0 || tracing::Tracer::InOwnPython() ||
      IsFinaliser(code) || BelongsToTorchLeaf(frame)) {
    std::optional<FiltersOfProgram> filters;
    if (tracing::Tracer::InOwnPython() || IsFinaliser(code)) filters.emplace();
    return frame_ops::EvalDefault(thread, frame, throw_flag);
  }
  if (BreaksAsItStarts(frame)) {
    // Torch loses the result that it has made where a warning fails: it is let pass, and the attempt ends behind it.
    frame_ops::FinishHookedFrame(thread, frame);
    return ShowsWarning(code) ? (PyErr_Clear(), Py_NewRef(Py_None)) : nullptr;
  }
  ExpectedCall call = std::exchange(expected_, ExpectedCall());
  if (call.function != reinterpret_cast<PyObject*>(frame_ops::Function(frame))) call = ExpectedCall();
  Activation act;
  act.frame = frame;
  act.parent = top_;
  act.completion = frame_ops::IsGenerator(frame) ? Completion::kCallback : call.completion;
  if (act.completion != Completion::kCallback && act.parent != nullptr) {
    act.completion = catching_ > 0 ? Completion::kCallback : CompletedFrom(*act.parent, act.completion);
  }
  act.pending_result = call.pending;
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  act.stack_depth = frame_ops::StackDepth(frame);
  if (frame_ops::IsStarting(frame)) PrepareFrameSlots(act, call);
  if (starting_generator) return frame_ops::EvalDefault(thread, frame, throw_flag);
  return EvaluateFrame(act, StartAt::kNext);
}

bool Capture::BreaksAsItStarts(frame_ops::Frame* frame) {
  PyCodeObject* code = frame_ops::Code(frame);
  // One of a dropped attempt would warn that nobody awaited it.
  if (frame_ops::IsStarting(frame) && (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0) {
    return !BreakFalse(GraphBreakKind::kAsync, "a coroutine is made");
  }
  if (!ShowsWarning(code)) return false;
  for (const Activation* f : frames_) ForgetWarning(frame, frame_ops::Globals(f->frame));
  return !BreakFalse(GraphBreakKind::kSideEffectCall, "a warning");
}

// close(), throw() and the death of a suspended generator, also where no C code was called: its handlers are
// captured code too.
PyObject* Capture::ThrowIntoGenerator(frame_ops::Frame* frame) {
  PyCodeObject* code = frame_ops::Code(frame);
  Activation act;
  act.frame = frame;
  act.parent = top_;
  act.completion = Completion::kCallback;
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  act.stack_depth = frame_ops::StackDepth(frame);
  if (!control.unwinding) return EvaluateFrame(act, StartAt::kThrow);
  frame_ops::FinishHookedFrame(thread_, frame);
  return nullptr;
}

PyObject* Capture::EvaluateFrame(Activation& act, StartAt start) {
  PyThreadState* thread = thread_;
  frame_ops::Frame* frame = act.frame;
  origins_.NoteCode(frame_ops::Code(frame));
  fx_.NoteFrame();
  const FiltersOfProgram filters;
  const int outer_native = std::exchange(native_depth_, 0);
  const int outer_leaf = std::exchange(leaf_depth_, 0);
  frames_.push_back(&act);
  top_ = &act;
  Ref handled = frame_ops::HandledException(thread);
  RunResult result = control.unwinding ? RunResult{Outcome::kUnwound, Value()} : Evaluate(thread, act, *this, start);
  if (result.outcome == Outcome::kUnwound) {
    frame_ops::SetHandledException(thread, std::move(handled));
    if (!frame_ops::IsGenerator(frame)) DropSlots(frame);
  }
  top_ = act.parent;
  frames_.pop_back();
  native_depth_ = outer_native;
  leaf_depth_ = outer_leaf;
  if (result.outcome == Outcome::kUnwound) {
    SetUnwindError();
    // close() takes this error for its end; any other would be reported as unraisable.
    if (start == StartAt::kThrow) PyErr_SetNone(PyExc_GeneratorExit);
  }
  Consume(result.value);  // the caller gets the object without its source
  if (result.outcome != Outcome::kYielded) frame_ops::FinishHookedFrame(thread, frame);
  return result.value.object.release();
}

// Defaults, closure cells and keyword values reach a frame without a load: they are adopted here.
void Capture::PrepareFrameSlots(Activation& act, const ExpectedCall& call) {
  PyFunctionObject* function = frame_ops::Function(act.frame);
  auto* object = reinterpret_cast<PyObject*>(function);
  PyCodeObject* code = frame_ops::Code(act.frame);
  if (IsFreshFunction(object)) return;
  Tracked* known = tracked_.Find(object);
  const SourceId source = known != nullptr ? known->source : ConstantSource(object);
  PyObject** slots = frame_ops::Slots(act.frame);
  const std::size_t positional = std::min<std::size_t>(call.args.size(), static_cast<std::size_t>(code->co_argcount));
  for (std::size_t i = 0; i < positional; ++i) {
    if (slots[i] == call.args[i].object.get()) act.sources[i] = call.args[i].source;
  }
  const auto adopt = [&](int slot, SourceId from) {
    Value v = Adopt(slots[slot], from);
    if (!v) return;
    Py_SETREF(slots[slot], v.object.release());
    act.sources[static_cast<std::size_t>(slot)] = v.source;
  };
  if (PyObject* defaults = function->func_defaults) {
    const int count = static_cast<int>(PyTuple_GET_SIZE(defaults));
    const int first = code->co_argcount - count;
    for (int i = static_cast<int>(positional); i < code->co_argcount; ++i) {
      if (i >= first && slots[i] == PyTuple_GET_ITEM(defaults, i - first)) {
        adopt(i, sources_.Intern(SourceKind::kDefault, source, i - first, nullptr));
      }
    }
  }
  if (PyObject* defaults = function->func_kwdefaults) {
    Ref varnames = Ref::Steal(PyCode_GetVarnames(code));
    for (int i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; ++i) {
      PyObject* name = PyTuple_GET_ITEM(varnames.get(), i);
      if (slots[i] != nullptr && slots[i] == PyDict_GetItemWithError(defaults, name)) {
        adopt(i, sources_.Intern(SourceKind::kKwDefault, source, 0, name));
      }
    }
  }
  if (PyObject* closure = function->func_closure) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      Adopt(PyTuple_GET_ITEM(closure, i),
            sources_.Intern(SourceKind::kFunctionCell, source, static_cast<std::int32_t>(i), nullptr));
    }
  }
}

bool Capture::BelongsToTorchLeaf(frame_ops::Frame* frame) const {
  // Torch's code calls the standard library's for itself: what it says of types, keeps in caches or wraps in contexts.
  PyCodeObject* code = frame_ops::Code(frame);
  if (expected_.function == reinterpret_cast<PyObject*>(frame_ops::Function(frame))) return false;  // a class's body
  return leaf_depth_ > 0 && ((IsSkippedCode(code) && !IsWarningsCode(code)) || IsTypingCode(code));
}

// ---------------------------------------------------------------- breaks and stops

CapturePosition Capture::PositionOf(const Activation& act, std::uint64_t executed) const {
  return CapturePosition{executed, RefOf<PyCodeObject>::Create(frame_ops::Code(act.frame)), act.instruction};
}

GraphBreakReason Capture::ReasonHere(GraphBreakKind kind, std::string_view context) const {
  std::size_t last = frames_.size() - 1;
  while (last > 0 && IsOwnCode(frame_ops::Code(frames_[last]->frame))) --last;
  const Activation& at = *frames_[last];
  PyCodeObject* code = frame_ops::Code(at.frame);
  GraphBreakReason reason;
  reason.kind = kind;
  reason.context = std::string(context);
  reason.file = FileNameOf(code);
  reason.line = LineOf(code, at.instruction);
  reason.function = NameOf(code);
  reason.source = SourceLine(code, reason.line);
  return reason;
}

void Capture::NeedFrames() {
  needs_frames_ = true;
  control.unwinding = true;
  PyErr_Clear();
  SetUnwindError();
}

Value Capture::Break(GraphBreakKind kind, std::string_view context) {
  if (control.unwinding) return Value();
  needs_frames_ = calls_without_frames_ > 0;
  left_modes_ = modes_.open() > 0;
  control.unwinding = true;
  BreakRecord record;
  // Frames entered from C cannot be resumed: the break is the outermost C call's (soundness rule 4).
  std::size_t last = 0;
  while (last + 1 < frames_.size() && frames_[last + 1]->completion != Completion::kCallback) ++last;
  // Library code runs natively from the user's call on, rather than in pieces.
  const auto is_library = [this](std::size_t i) {
    frame_ops::Frame* frame = frames_[i]->frame;
    PyCodeObject* code = frame_ops::Code(frame);
    return IsSkippedCode(code) || classes_.IsMadeCode(code) || IsOfLibraryWithoutTensors(frame);
  };
  while (last > 0 && is_library(last)) --last;
  for (std::size_t i = last + 1; i-- > 0;) {
    if (i > 0 && is_library(i)) continue;
    const Activation& act = *frames_[i];
    CapturePosition position = PositionOf(act, act.started);
    if (i == last) {
      record.position = position;
    } else {
      record.outer_positions.push_back(position);
    }
  }
  record.reason = ReasonHere(kind, context);
  break_ = std::move(record);
  PyErr_Clear();
  SetUnwindError();
  return Value();
}

bool Capture::CheckTracer() {
  if (control.unwinding) return false;
  if (const std::optional<tracing::TensorBreak>& pending = tracer_.PendingBreak()) {
    Break(BreakKindOf(*pending),
          absl::StrCat(pending->context, pending->explanation.empty() ? "" : ": ", pending->explanation));
    return false;
  }
  if (options_.refused_node >= 0 && tracer_.NodeCount() > options_.refused_node) {
    return BreakFalse(GraphBreakKind::kUnsupportedOperator, options_.why_refused);
  }
  if (PyErr_Occurred() == nullptr) [[likely]] {
    return true;
  }
  if (numpy_errors_.Raised()) {
    Break(GraphBreakKind::kSideEffectCall, "numpy's warning of a floating-point error");
    return false;
  }
  if (IsErrorAboutFakes()) {
    Break(GraphBreakKind::kTensorToPython, "C code reads its memory");
    return false;
  }
  return true;
}

Value Capture::Wrap(Ref object) {
  if (!CheckTracer()) return Value();
  return Value{std::move(object), kNoSource};
}

void Capture::SetStop(std::uint64_t executed) {
  wanted_stop_ = executed;
  control.stop_at = std::min(wanted_stop_, next_checkpoint_);
}

// A loop without an end must neither fill the memory nor keep a signal from its handler.
bool Capture::Checkpoint(Activation& act) {
  if (control.executed < next_checkpoint_) return true;
  next_checkpoint_ = control.executed + kInstructionsToCheckpoint;
  SetStop(wanted_stop_);
  act.started = control.executed;  // not begun: its number is the next
  if (SignalPause::HasArrived()) return BreakFalse(GraphBreakKind::kInterrupted, "");
  const bool idle = control.executed >= kMaxIdleInstructions && tracer_.NodeCount() == 0;
  const bool too_long = idle || control.executed >= kMaxInstructions || tracer_.NodeCount() >= kMaxNodes;
  // A re-run stops before the place where the first run got too long.
  return stop_ || !too_long || BreakFalse(GraphBreakKind::kTooLong, "");
}

StopAction Capture::OnStop(Activation& act) {
  if (!Checkpoint(act)) return StopAction::kUnwind;
  if (control.executed != wanted_stop_) return StopAction::kContinue;
  const bool in_chain = [&] {
    for (const Activation* f : frames_) {
      if (f->completion == Completion::kCallback) return false;
    }
    return true;
  }();
  if (track_rebuildable_ && !(stop_ && control.executed >= stop_->executed)) {
    SetStop(control.executed + 1);
    if (in_chain && frames_.size() == 1 && stop_listener_ != nullptr && stop_listener_->IsRebuildable(*this, act)) {
      last_rebuildable_ = PositionOf(act, control.executed);
    }
    return StopAction::kContinue;
  }
  if (!stop_) {
    if (!in_chain) {
      SetStop(control.executed + 1);
      return StopAction::kContinue;
    }
    act.started = control.executed;  // not begun: its number is the next
    Break(GraphBreakKind::kForced, "");
    return StopAction::kUnwind;
  }
  if (RefOf<PyCodeObject>::Create(frame_ops::Code(act.frame)).get() != stop_->code.get() ||
      act.instruction != stop_->instruction || !in_chain) {
    stop_mismatch_ = true;
  } else {
    stopped_ = true;
    if (stop_listener_ != nullptr) stop_listener_->AtStop(*this, act);
  }
  control.unwinding = true;
  SetUnwindError();
  return StopAction::kUnwind;
}

Value Capture::AdoptSlot(Activation& act, int slot) {
  PyObject** slots = frame_ops::Slots(act.frame);
  Value v = AdoptLocal(act, slots[slot], slot);
  if (!v) return Value();
  Py_SETREF(slots[slot], Py_NewRef(v.object.get()));
  act.sources[static_cast<std::size_t>(slot)] = v.source;
  return v;
}

void Capture::SeeUnbound(Activation&, int slot) { AddGuard(sources_.Local(slot), GuardKind::kNull, nullptr); }

std::vector<std::string> Capture::SlotNames() const {
  PyCodeObject* code = frame_ops::Code(real_frame_);
  std::vector<std::string> names;
  const int count = frame_ops::SlotCount(code);
  for (int i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    const char* text = PyUnicode_AsUTF8(name);
    names.emplace_back(text != nullptr ? text : "?");
  }
  for (int i = 0; i < code->co_stacksize; ++i) names.push_back(absl::StrCat("stack", i));
  return names;
}

}  // namespace framefuse
