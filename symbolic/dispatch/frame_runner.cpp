#include "symbolic/dispatch/frame_runner.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "common/config.h"
#include "common/logging.h"
#include "frame_eval/bytecode/decode.h"
#include "frame_eval/versions/opcode_table.h"
#include "guards/leaf/saved_tensor_hooks.h"
#include "symbolic/ambient/function_modes.h"
#include "symbolic/dispatch/reporting.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/frames/code_facts.h"
#include "symbolic/frames/installed_code.h"
#include "symbolic/frames/library_frame.h"
#include "symbolic/rules/disabled_function.h"

namespace framefuse {
namespace {

// A frame that breaks this often in a row without a tensor operation is not what anybody compiles for.
constexpr int kMostIdlePieces = 5000;

// Somebody looks into frames, which compiled code does not have. A checkpoint's second run is as its first was.
bool IsWatched(PyThreadState* thread) {
  return frame_ops::WatcherOf(thread) == frame_ops::Watcher::kOfFrames && !config().compile_under_trace &&
         !IsSecondRun();
}

// Of a frame that has not begun.
bool IsCalledByUsersCode(PyThreadState* thread) {
  const frame_ops::Frame* caller = frame_ops::CurrentFrame(thread);
  return caller != nullptr && IsUsersCode(frame_ops::Code(caller));
}

// Executes one instruction and pauses before the next.
class OneStep final : public NativeProtocols {
 public:
  OneStep() { control.stop_at = 1; }
  StopAction OnStop(Activation&) override { return StopAction::kPause; }
};

void FillFrame(frame_ops::Frame* frame, const ResumeFrame& f, const std::vector<Ref>& registers) {
  PyObject** slots = frame_ops::Slots(frame);
  const int locals = frame_ops::SlotCount(frame_ops::Code(frame));
  const int old_depth = frame_ops::StackDepth(frame);
  for (const SlotRecipe& s : f.slots) {
    PyObject* value = s.value == kNoRecipe ? nullptr : Py_NewRef(registers[static_cast<std::size_t>(s.value)].get());
    // Above the live stack CPython leaves stale pointers.
    PyObject* old = s.slot < locals + old_depth ? slots[s.slot] : nullptr;
    slots[s.slot] = value;
    Py_XDECREF(old);
  }
  for (int i = f.stack_depth; i < old_depth; ++i) Py_CLEAR(slots[locals + i]);
  frame_ops::SetStackDepth(frame, f.stack_depth);
  frame_ops::SetNextInstruction(frame, f.next_instruction);
}

// Between the pieces of a frame, where its own instructions would; false: a handler raised.
bool ServeSignals(PyThreadState* thread) {
  if (!frame_ops::HasPendingSignals()) return true;
  const HookScope native(HookMode::kOff);
  return frame_ops::HandlePendingWork(thread) == 0;
}

// Whether a generator's frame stands at a yield or in an await, whose instructions are one after another.
bool StandsAtSuspension(frame_ops::Frame* frame) {
  if (!frame_ops::IsGenerator(frame)) return false;
  const Bytecode* bytecode = BytecodeOf(frame_ops::Code(frame));
  if (bytecode == nullptr) {
    PyErr_Clear();
    return false;
  }
  const auto at = static_cast<std::size_t>(bytecode->PositionOf(frame_ops::NextInstruction(frame)));
  const std::vector<Instruction>& all = bytecode->instructions();
  const Instruction& in = all[at];
  const auto is_send = [&](std::size_t i) { return i < all.size() && all[i].opcode == Opcode::kSend; };
  if (in.opcode == Opcode::kResume) return (in.arg & 3) >= 2;  // in an await or a `yield from`
  if (in.opcode == Opcode::kLoadConst) return is_send(at + 1);
  if (in.opcode == Opcode::kJumpBackward) return is_send(static_cast<std::size_t>(in.target));
  return in.opcode == Opcode::kYieldValue || in.opcode == Opcode::kGetAwaitable || in.opcode == Opcode::kSend;
}

thread_local PyCodeObject* skipped_code = nullptr;

PyCodeObject* CodeOf(BorrowedRef callable) {
  PyObject* o = callable.get();
  if (PyMethod_Check(o)) o = PyMethod_GET_FUNCTION(o);
  return PyFunction_Check(o) ? reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(o)) : nullptr;
}

}  // namespace

SkipNextFrame::SkipNextFrame(BorrowedRef callable) : outer_(std::exchange(skipped_code, CodeOf(callable))) {}
SkipNextFrame::~SkipNextFrame() { skipped_code = outer_; }

Hit FrameRunner::TryWithoutFrame(const FrameView& view) const {
  return IsWatched(PyThreadState_Get()) ? Hit() : RunHit(*owner_, maker_.id(), view);
}

void FrameRunner::SayThrownInto(PyThreadState* thread, frame_ops::Frame* frame) {
  Ref error = frame_ops::FetchRaised(thread);
  FF_CHECK(maker_.Say(FallbackKind::kThrownInto, frame_ops::Code(frame)));  // what is only counted is no error
  frame_ops::RestoreRaised(thread, std::move(error));
}

PyObject* FrameRunner::OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  PyCodeObject* code = frame_ops::Code(frame);
  const CodeFacts facts = FactsOf(code);
  // What an import runs, the bodies of modules and what they call, is no part of the program (soundness rule 5). Below
  // the handler of a dispatch mode the dispatcher stands at a place of its own, which capture cannot take over.
  if (facts.is_dispatch_handler || facts.is_import || frame_ops::IsInWatcher(thread)) {
    const HookScope native(HookMode::kOff);
    return RunUnhooked(thread, frame, throw_flag);
  }
  if (skipped_code == code && frame_ops::IsStarting(frame)) {
    skipped_code = nullptr;
    return RunUnhooked(thread, frame, throw_flag);
  }
  const BorrowedRef function(reinterpret_cast<PyObject*>(frame_ops::Function(frame)));
  switch (HowDisabledByTorch(function)) {
    case DisabledByTorch::kNo:
      break;
    case DisabledByTorch::kAlone: {
      const SkipNextFrame skip(BehindTorchDisable(function));
      return RunUnhooked(thread, frame, throw_flag);
    }
    case DisabledByTorch::kWithWhatItCalls: {
      // A checkpoint's second run: as it would be without a compiled function around the backward pass.
      const bool again = IsOfCheckpoint(BehindTorchDisable(function));
      const HookScope disabled(again ? HookMode::kOff : HookMode::kDisabled);
      return RunUnhooked(thread, frame, throw_flag);
    }
  }
  const bool root = std::exchange(root_code_, nullptr) == code;
  const bool is_coroutine = (code->co_flags & CO_COROUTINE) != 0;
  const bool goes_on = frame_ops::IsGenerator(frame) && (root || is_coroutine);  // it was suspended
  const bool in_namespace = frame_ops::Locals(frame) != nullptr;
  if (throw_flag != 0 && goes_on && config().capture_on) SayThrownInto(thread, frame);
  const auto is_skipped = [&] {
    return (facts.is_skipped || IsGeneratedByTorch(frame)) && !IsOfDistributedModule(frame);
  };
  const bool is_on = config().capture_on || IsSecondRun();
  if (throw_flag != 0 || !(frame_ops::IsStarting(frame) || goes_on) || !is_on ||
      (!root && (is_skipped() || (in_namespace && !IsCalledByUsersCode(thread))))) {
    return RunUnhooked(thread, frame, throw_flag);
  }
  if (in_namespace) {
    return maker_.RunAsPython(thread, frame, root ? FallbackKind::kNamespace : FallbackKind::kNamespaceBelow);
  }
  if (!root && IsOfLibraryWithoutTensors(frame)) return maker_.RunAsPython(thread, frame, FallbackKind::kLibrary);
  if ((code->co_flags & CO_ASYNC_GENERATOR) != 0)
    return maker_.RunAsPython(thread, frame, FallbackKind::kAsyncGenerator);
  if (frame_ops::IsGeneratorCode(code) && !goes_on) {  // it makes the generator, or the coroutine
    if (root || is_coroutine) return RunUnhooked(thread, frame, throw_flag);
    return maker_.RunAsPython(thread, frame, FallbackKind::kGenerator);
  }
  if (IsWatched(thread)) {
    std::optional<CheckpointScript> script = root ? CheckpointScript::Now() : std::nullopt;
    if (script) script->Note(nullptr, nullptr);
    return maker_.RunAsPython(thread, frame, FallbackKind::kTraced);
  }
  if (InterceptorAtStart() != nullptr) return GoOnIntercepted(thread, frame, root);
  return GoOn(thread, frame, /*step_first=*/false);
}

// The outermost frame says in the log what intercepts it; what it calls would say the same.
PyObject* FrameRunner::GoOnIntercepted(PyThreadState* thread, frame_ops::Frame* frame, bool root) {
  thread_local bool said = false;
  if (said && !root) return maker_.RunAsPython(thread, frame, FallbackKind::kIntercepted, InterceptorAtStart());
  const bool outer = std::exchange(said, true);
  PyObject* result = GoOn(thread, frame, /*step_first=*/false);
  said = outer;
  return result;
}

// ---------------------------------------------------------------- one frame, from where it stands to its end

PyObject* FrameRunner::GoOn(PyThreadState* thread, frame_ops::Frame* frame, bool step_first,
                            const GraphBreakReason* after) {
  PyObject* result = nullptr;
  if (step_first) {
    const Step step = StepNatively(thread, frame, StartAt::kNext, &result);
    if (step == Step::kFinished) return result;
  }
  Progress progress{0, after, nullptr, nullptr};
  for (;;) {
    DeliverLogs();  // before guards are checked, which a handler may make fail
    // Tracing that began in this frame sees the frames it starts; CPython's evaluator would report this one as called.
    for (bool said = false; IsWatched(thread);) {
      if (!std::exchange(said, true) && !maker_.Say(FallbackKind::kTraced, frame_ops::Code(frame))) {
        return Unwind(thread, frame);
      }
      if (StepNatively(thread, frame, StartAt::kNext, &result) == Step::kFinished) return result;
    }
    if (!frame_ops::IsStarting(frame) && !ServeSignals(thread)) return Unwind(thread, frame);
    if (StandsAtSuspension(frame)) {
      if (StepNatively(thread, frame, StartAt::kNext, &result) == Step::kFinished) return result;
      continue;
    }
    if (progress.idle_pieces >= kMostIdlePieces) {
      return maker_.RunAsPython(thread, frame, FallbackKind::kIdle, absl::StrCat(progress.idle_pieces, " pieces"));
    }
    switch (RunEntryHere(thread, frame, &result, &progress)) {
      case Step::kFinished:
        return result;
      case Step::kGoOn:
        break;
    }
  }
}

void FrameRunner::Progress::Leave(std::shared_ptr<Entry> entry) {
  broken = std::move(entry);
  const auto& compiled = static_cast<const CompiledEntry&>(*broken);
  after = &compiled.resume->reason;
  if (compiled.use != nullptr) between = std::make_unique<BreakClock>(compiled.use);
}

FrameRunner::Step FrameRunner::RunEntryHere(PyThreadState* thread, frame_ops::Frame* frame, PyObject** result,
                                            Progress* progress) {
  const FrameView view = frame_ops::View(frame);
  RefOf<PyCodeObject> code = RefOf<PyCodeObject>::Create(view.code);
  std::shared_ptr<Site> site = CodeCache::Get(code, *owner_, view.offset);
  ResolvedSources resolved;
  std::optional<CheckpointScript> script = CheckpointScript::Now();
  if (script && script->is_second_run()) return RunAgain(thread, frame, *script, site, result, progress);
  std::shared_ptr<Entry> found = FindEntry(*site, maker_.id(), view, &resolved);
  if (found == nullptr) {
    EntryMaker::Made made = maker_.Make(thread, frame, *site, progress->after);
    if (made.entry != nullptr && !made.entry->guards->Check(view, &resolved)) {  // a backend wrote what it reads
      made = maker_.Make(thread, frame, *site, progress->after);
    }
    if (made.entry == nullptr) {
      if (script) script->Note(site, nullptr);
      DeliverLogs();
      // In the middle of a frame its `with` and `try` blocks are left, as by any error.
      const bool leaves = made.without == EntryMaker::Without::kRaises && !frame_ops::IsStarting(frame);
      *result = leaves ? Unwind(thread, frame) : maker_.RunWithout(thread, frame, made);
      return Step::kFinished;
    }
    if (!made.entry->guards->Check(frame_ops::View(frame), &resolved)) {
      *result = maker_.RunAsPython(thread, frame, FallbackKind::kBug,
                                   absl::StrCat("its guards do not hold after the capture: ",
                                                made.entry->guards->Explain(frame_ops::View(frame))));
      return Step::kFinished;
    }
    found = std::move(made.entry);
  } else {
    ++MutableStatistics().hits;
  }
  if (script) script->Note(site, found);
  return Run(thread, frame, std::move(found), resolved, result, progress);
}

// A checkpoint's function, as it ran before.
FrameRunner::Step FrameRunner::RunAgain(PyThreadState* thread, frame_ops::Frame* frame, CheckpointScript& script,
                                        const std::shared_ptr<Site>& site, PyObject** result, Progress* progress) {
  const std::optional<std::shared_ptr<Entry>> before = script.Next(site);
  // What handles the checkpoint's own exception, a `with`, has not run before.
  if (before ? *before == nullptr : script.HasAllSaved()) {
    *result = RunUnhooked(thread, frame, 0);
    return Step::kFinished;
  }
  const auto* const entry = before ? static_cast<const CompiledEntry*>(before->get()) : nullptr;
  ResolvedSources resolved;
  if (entry != nullptr && entry->guards->Check(frame_ops::View(frame), &resolved)) {
    ++MutableStatistics().hits;
    return Run(thread, frame, *before, resolved, result, progress);
  }
  if (entry != nullptr) {
    // Objects that the function makes anew are others: what is made for them may be the same.
    std::shared_ptr<Entry> other = FindEntry(*site, maker_.id(), frame_ops::View(frame), &resolved);
    if (other == nullptr) other = maker_.Make(thread, frame, *site, progress->after).entry;
    const auto* const now = static_cast<const CompiledEntry*>(other.get());
    if (now != nullptr && now->SavesAs(*entry) && now->guards->Check(frame_ops::View(frame), &resolved)) {
      return Run(thread, frame, std::move(other), resolved, result, progress);
    }
    PyErr_Clear();
  }
  const std::string why =
      entry != nullptr ? entry->guards->Explain(frame_ops::View(frame)) : "it did not come here then";
  CheckpointScript::RaiseOtherWay(frame_ops::Code(frame)->co_qualname, why);
  *result = Unwind(thread, frame);
  return Step::kFinished;
}

FrameRunner::Step FrameRunner::Run(PyThreadState* thread, frame_ops::Frame* frame, std::shared_ptr<Entry> found,
                                   const ResolvedSources& resolved, PyObject** result, Progress* progress) {
  const auto& entry = static_cast<const CompiledEntry&>(*found);
  progress->between.reset();
  progress->idle_pieces = entry.executable == nullptr ? progress->idle_pieces + 1 : 0;
  Ref value;
  std::vector<Ref> registers;
  CompiledEntry::Failure failure;
  switch (entry.Run(resolved, &value, &registers, &failure)) {
    case CompiledEntry::Outcome::kRunNatively:
      *result = maker_.RunAfterFailedPlan(thread, frame, failure.text);
      return Step::kFinished;
    case CompiledEntry::Outcome::kOtherWay:
      *result = maker_.RunOtherWay(thread, frame, entry, failure);
      return Step::kFinished;
    case CompiledEntry::Outcome::kRaised:
      *result = Unwind(thread, frame);
      return Step::kFinished;
    case CompiledEntry::Outcome::kReturned:
      frame_ops::FinishHookedFrame(thread, frame);
      *result = value.release();
      return Step::kFinished;
    case CompiledEntry::Outcome::kResume:
      break;
  }
  const ResumePoint& resume = *entry.resume;
  progress->Leave(found);
  if (resume.frames.size() == 1) {
    FillFrame(frame, resume.frames[0], registers);
    registers.clear();
    DeliverLogs();
    return StepNatively(thread, frame, StartAt::kNext, result);
  }
  return ResumeChain(thread, frame, resume, std::move(registers), result);
}

// Executes one instruction on the real frame (kNext), or unwinds to a handler for the error that is set (kThrow).
FrameRunner::Step FrameRunner::StepNatively(PyThreadState* thread, frame_ops::Frame* frame, StartAt start,
                                            PyObject** result) {
  OneStep protocols;
  if (start == StartAt::kThrow) protocols.control.stop_at = 0;
  Activation act;
  act.frame = frame;
  PyCodeObject* code = frame_ops::Code(frame);
  act.sources.assign(
      static_cast<std::size_t>(frame_ops::SlotCount(code)) + static_cast<std::size_t>(code->co_stacksize), kNoSource);
  RunResult run = Evaluate(thread, act, protocols, start);
  switch (run.outcome) {
    case Outcome::kPaused:
      return Step::kGoOn;
    case Outcome::kReturned:
      frame_ops::FinishHookedFrame(thread, frame);
      *result = run.value.object.release();
      return Step::kFinished;
    case Outcome::kYielded:
      *result = run.value.object.release();
      return Step::kFinished;
    case Outcome::kRaised:
    case Outcome::kUnwound:
      break;
  }
  frame_ops::FinishHookedFrame(thread, frame);
  *result = nullptr;
  return Step::kFinished;
}

// An error is set where the frame stands: its handlers run, or it ends.
PyObject* FrameRunner::Unwind(PyThreadState* thread, frame_ops::Frame* frame) {
  PyObject* result = nullptr;
  if (StepNatively(thread, frame, StartAt::kThrow, &result) == Step::kFinished) return result;
  return GoOn(thread, frame, /*step_first=*/false);
}

// ---------------------------------------------------------------- chains of frames that were inlined

// Runs the frames that were inlined, innermost first; the root then stands after its call.
FrameRunner::Step FrameRunner::ResumeChain(PyThreadState* thread, frame_ops::Frame* root, const ResumePoint& resume,
                                           std::vector<Ref> registers, PyObject** result) {
  Chain chain{resume, {root}, {}};
  for (const ResumeFrame& f : resume.frames) {
    chain.pending.push_back(f.pending == kNoRecipe ? Ref() : registers[static_cast<std::size_t>(f.pending)]);
  }
  FillFrame(root, resume.frames[0], registers);
  for (std::size_t i = 1; i < resume.frames.size(); ++i) {
    const ResumeFrame& f = resume.frames[i];
    PyObject* function = registers[static_cast<std::size_t>(f.function)];
    frame_ops::Frame* frame = frame_ops::NewFrame(thread, reinterpret_cast<PyFunctionObject*>(function), nullptr);
    if (frame == nullptr) {
      DropInner(thread, chain, 0);
      return StepNatively(thread, root, StartAt::kThrow, result);
    }
    FillFrame(frame, f, registers);
    chain.frames.push_back(frame);
  }
  registers.clear();  // nothing of the break outlives what the frames hold
  return CallInner(thread, chain, 0, result);
}

// Frees the frames above `index`, which never ran.
void FrameRunner::DropInner(PyThreadState* thread, Chain& chain, std::size_t index) {
  while (chain.frames.size() > index + 1) {
    frame_ops::ClearAndPopFrame(thread, chain.frames.back());
    chain.frames.pop_back();
  }
}

PyObject* FrameRunner::RunInner(PyThreadState* thread, Chain& chain, std::size_t index) {
  frame_ops::Frame* frame = chain.frames[index];
  if (index + 1 == chain.frames.size()) return GoOn(thread, frame, /*step_first=*/true, &chain.resume.reason);
  PyObject* result = nullptr;
  if (CallInner(thread, chain, index, &result) == Step::kFinished) return result;
  return GoOn(thread, frame, /*step_first=*/false);
}

// Frame `index` stands at a call; the frame above runs to its end and completes that instruction.
FrameRunner::Step FrameRunner::CallInner(PyThreadState* thread, Chain& chain, std::size_t index, PyObject** result) {
  frame_ops::Frame* frame = chain.frames[index];
  const ResumeFrame& f = chain.resume.frames[index];
  frame_ops::SetLastInstruction(frame, f.call_instruction);
  frame_ops::Linkage linkage;
  PyObject* value = nullptr;
  if (frame_ops::Enter(thread, frame, &linkage)) {
    value = RunInner(thread, chain, index + 1);
    frame_ops::Leave(thread, frame, &linkage);
    frame_ops::ReleaseFrame(thread, chain.frames[index + 1]);
  } else {
    DropInner(thread, chain, index);
  }
  if (value != nullptr && f.completion == Completion::kInit) {
    if (value != Py_None) {
      PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(value)->tp_name);
      Py_CLEAR(value);
    } else {
      Py_SETREF(value, chain.pending[index].release());
    }
  }
  if (value != nullptr && f.completion == Completion::kPushNone) Py_SETREF(value, Py_NewRef(Py_None));
  frame_ops::SetStackDepth(frame, f.stack_depth);
  if (value == nullptr) {
    frame_ops::SetNextInstruction(frame, f.call_instruction + 1);
    return StepNatively(thread, frame, StartAt::kThrow, result);
  }
  if (f.completion == Completion::kDrop) {
    Py_DECREF(value);
  } else {
    PyObject** stack = frame_ops::Slots(frame) + frame_ops::SlotCount(frame_ops::Code(frame));
    int depth = f.stack_depth;
    if (f.push_null && !kNullOverCallable) stack[depth++] = nullptr;
    stack[depth++] = value;
    if (f.push_null && kNullOverCallable) stack[depth++] = nullptr;
    frame_ops::SetStackDepth(frame, depth);
  }
  frame_ops::SetNextInstruction(frame, f.next_instruction);
  return Step::kGoOn;
}

}  // namespace framefuse
