#include "symbolic/capture/frame_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/graph/recording_probe.h"
#include "common/config.h"
#include "common/logging.h"
#include "frame_eval/versions/dict_reads.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/disabled_function.h"
#include "symbolic/capture/reporting.h"
#include "symbolic/capture/signal_pause.h"
#include "symbolic/evaluator/native_protocols.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr int kMaxFailures = 3;

bool IsGeneratorCode(PyCodeObject* code) {
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

// A frame that breaks this often in a row without a tensor operation is not what anybody compiles for.
constexpr int kMostIdlePieces = 5000;

// Below the handler of a dispatch mode the dispatcher stands at a place of its own, which capture cannot take over.
bool IsDispatchHandler(PyCodeObject* code) {
  return PyUnicode_CompareWithASCIIString(code->co_name, "__torch_dispatch__") == 0;
}

// A builtins dictionary with other keys than strings runs their __eq__ whenever C code looks for a builtin, as an
// attempt's does: iterators, for one, name theirs when they are asked for their state.
bool HasOnlyNames(PyObject* builtins) {
  if (frame_ops::HasOnlyStringKeys(builtins)) return true;
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(builtins, &position, &key, &value) != 0;) {
    if (!PyUnicode_CheckExact(key)) return false;
  }
  return true;
}

// Executes one instruction and pauses before the next.
class OneStep final : public NativeProtocols {
 public:
  OneStep() { control.stop_at = 1; }
  StopAction OnStop(Activation&) override { return StopAction::kPause; }
  // A module's body is no part of the program (soundness rule 5).
  Value ImportName(Activation& act, BorrowedRef name, ValueView fromlist, ValueView level) override {
    const HookScope native(HookMode::kOff);
    return NativeProtocols::ImportName(act, name, fromlist, level);
  }
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

thread_local PyCodeObject* skipped_code = nullptr;

PyCodeObject* CodeOf(BorrowedRef callable) {
  PyObject* o = callable.get();
  if (PyMethod_Check(o)) o = PyMethod_GET_FUNCTION(o);
  return PyFunction_Check(o) ? reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(o)) : nullptr;
}

}  // namespace

SkipNextFrame::SkipNextFrame(BorrowedRef callable) : outer_(std::exchange(skipped_code, CodeOf(callable))) {}
SkipNextFrame::~SkipNextFrame() { skipped_code = outer_; }

PyObject* FrameRunner::OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) {
  PyCodeObject* code = frame_ops::Code(frame);
  if (IsDispatchHandler(code)) {
    const HookScope native(HookMode::kOff);
    return frame_ops::EvalDefault(thread, frame, throw_flag);
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
      const HookScope disabled(HookMode::kDisabled);
      return RunUnhooked(thread, frame, throw_flag);
    }
  }
  const bool root = std::exchange(root_code_, nullptr) == code;
  if (throw_flag != 0 || !frame_ops::IsStarting(frame) || IsGeneratorCode(code) || frame_ops::IsTraced(thread) ||
      !config().capture_on || (!root && IsSkippedCode(code)) || frame_ops::Locals(frame) != nullptr) {
    return RunUnhooked(thread, frame, throw_flag);
  }
  return GoOn(thread, frame, /*step_first=*/false);
}

FrameRunner::Fast FrameRunner::TryWithoutFrame(const FrameView& view) {
  Site* site = CodeCache::Peek(RefOf<PyCodeObject>::Create(view.code), *owner_, 0);
  if (site == nullptr) return Fast();
  ResolvedSources resolved;
  std::shared_ptr<Entry> entry = FindEntry(*site, view, &resolved);
  if (entry == nullptr) return Fast();
  const auto& compiled = static_cast<const CompiledEntry&>(*entry);
  if (compiled.resume) return Fast();
  Fast fast;
  std::vector<Ref> registers;
  switch (compiled.Run(resolved, &fast.result, &registers)) {
    case CompiledEntry::Outcome::kRunNatively:
      return Fast();
    default:
      fast.hit = true;
      ++MutableStatistics().hits;
      return fast;
  }
}

std::shared_ptr<Entry> FrameRunner::FindEntry(Site& site, const FrameView& view, ResolvedSources* resolved) {
  return site.Find([&](const Entry& e) { return static_cast<const CompiledEntry&>(e).guards->Check(view, resolved); });
}

// ---------------------------------------------------------------- one frame, from where it stands to its end

PyObject* FrameRunner::GoOn(PyThreadState* thread, frame_ops::Frame* frame, bool step_first) {
  PyObject* result = nullptr;
  if (step_first) {
    const Step step = StepNatively(thread, frame, StartAt::kNext, &result);
    if (step == Step::kFinished) return result;
  }
  int idle_pieces = 0;
  for (;;) {
    // Tracing that began in this frame sees the frames it starts; CPython's evaluator would report this one as called.
    while (frame_ops::IsTraced(thread)) {
      if (StepNatively(thread, frame, StartAt::kNext, &result) == Step::kFinished) return result;
    }
    if (!frame_ops::IsStarting(frame) && !ServeSignals(thread)) return Unwind(thread, frame);
    if (idle_pieces >= kMostIdlePieces) {
      FF_LOG(kGraphBreaks) << NameOf(frame_ops::Code(frame)) << " goes on as Python: " << idle_pieces
                           << " pieces of it in a row had no tensor work";
      return RunUnhooked(thread, frame, 0);
    }
    switch (RunEntryHere(thread, frame, &result, &idle_pieces)) {
      case Step::kFinished:
        return result;
      case Step::kNative:
        return RunUnhooked(thread, frame, 0);
      case Step::kGoOn:
        break;
    }
  }
}

FrameRunner::Step FrameRunner::RunEntryHere(PyThreadState* thread, frame_ops::Frame* frame, PyObject** result,
                                            int* idle_pieces) {
  const FrameView view = frame_ops::View(frame);
  RefOf<PyCodeObject> code = RefOf<PyCodeObject>::Create(view.code);
  std::shared_ptr<Site> site = CodeCache::Get(code, *owner_, view.offset);
  ResolvedSources resolved;
  std::shared_ptr<Entry> found = FindEntry(*site, view, &resolved);
  if (found == nullptr) {
    if (site->skip) return Step::kNative;
    Made made = Make(thread, frame, site);
    if (made.entry == nullptr) {
      *result = RunWithout(thread, frame, made);
      return Step::kFinished;
    }
    if (!made.entry->guards->Check(frame_ops::View(frame), &resolved)) return Step::kNative;
    found = std::move(made.entry);
  } else {
    ++MutableStatistics().hits;
  }
  const auto& entry = static_cast<const CompiledEntry&>(*found);
  *idle_pieces = entry.executable == nullptr ? *idle_pieces + 1 : 0;
  Ref value;
  std::vector<Ref> registers;
  switch (entry.Run(resolved, &value, &registers)) {
    case CompiledEntry::Outcome::kRunNatively:
      return Step::kNative;
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
  if (resume.frames.size() == 1) {
    FillFrame(frame, resume.frames[0], registers);
    registers.clear();
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
    default:
      frame_ops::FinishHookedFrame(thread, frame);
      *result = nullptr;
      return Step::kFinished;
  }
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
  if (index + 1 == chain.frames.size()) return GoOn(thread, frame, /*step_first=*/true);
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
  frame_ops::SetStackDepth(frame, f.stack_depth);
  if (value == nullptr) {
    frame_ops::SetLastInstruction(frame, f.call_instruction);
    return StepNatively(thread, frame, StartAt::kThrow, result);
  }
  if (f.completion == Completion::kDrop) {
    Py_DECREF(value);
  } else {
    PyObject** stack = frame_ops::Slots(frame) + frame_ops::SlotCount(frame_ops::Code(frame));
    int depth = f.stack_depth;
    if (f.push_null) stack[depth++] = nullptr;
    stack[depth++] = value;
    frame_ops::SetStackDepth(frame, depth);
  }
  frame_ops::SetNextInstruction(frame, f.next_instruction);
  return Step::kGoOn;
}

// ---------------------------------------------------------------- making entries

void FrameRunner::LogRecompile(Site& site, const FrameView& view) {
  if (site.empty()) return;
  ++site.recompiles;
  ++MutableStatistics().recompiles;
  if (!LogEnabled(LogArtifact::kRecompiles)) return;
  std::string text =
      absl::StrCat("recompiling ", NameOf(view.code), " (", FileNameOf(view.code), ":", view.code->co_firstlineno, ")");
  for (const std::shared_ptr<Entry>& e : site.Entries()) {
    absl::StrAppend(&text, "\n  ", e->Explain(view));
    if (config().verbose) {
      absl::StrAppend(&text, "\n", static_cast<const CompiledEntry&>(*e).guards->PythonText("guards"));
    }
  }
  FF_LOG(kRecompiles) << text;
}

namespace {

void CountWork(const AttemptResult& made) {
  Statistics& statistics = MutableStatistics();
  statistics.attempts += made.attempts;
  statistics.instructions += made.instructions;
  statistics.operators += made.operators;
  statistics.evaluation_seconds += made.evaluation_seconds;
  statistics.capture_seconds += made.capture_seconds;
  statistics.backend_seconds += made.backend_seconds;
}

}  // namespace

bool FrameRunner::IsAtLimit(Site& site, const FrameView& view) const {
  site.RemoveDead();
  if (static_cast<std::int64_t>(site.size()) < config().recompile_limit) return false;
  if (site.limit_reported) return true;
  site.limit_reported = true;
  const std::vector<std::shared_ptr<Entry>> entries = site.Entries();
  // Of code without tensor work (a library's, between two breaks) nobody wants to hear.
  const bool matters = std::any_of(entries.begin(), entries.end(), [](const std::shared_ptr<Entry>& e) {
    return static_cast<const CompiledEntry&>(*e).executable != nullptr;
  });
  if (matters) WarnRecompileLimit(view.code, entries.front()->Explain(view));
  return true;
}

AttemptResult FrameRunner::Attempt(PyThreadState* thread, frame_ops::Frame* frame) const {
  // Fakes are counted over all threads: a capture that shared its time with another one's cannot tell whose they are.
  static int running = 0;
  static std::uint64_t begun = 0;
  const bool began_alone = running++ == 0;
  const std::uint64_t number = ++begun;
  const std::int64_t fakes = tracing::Tracer::LiveFakes();
  AttemptResult made = CaptureFrame(thread, frame, settings_);
  --running;
  const bool check = config().check_fakes_dead && began_alone && begun == number;
  if (check && tracing::Tracer::LiveFakes() > fakes) PyGC_Collect();  // cycles of the program's own
  if (check && made.error.ok() && tracing::Tracer::LiveFakes() > fakes) {
    made.error = absl::InternalError(
        absl::StrCat(tracing::Tracer::LiveFakes() - fakes, " fake tensors are alive after the capture"));
  }
  CountWork(made);
  return made;
}

bool FrameRunner::Report(const GraphBreakReason& reason) {
  ++MutableStatistics().graph_breaks;
  LogGraphBreak(reason);
  if (observer_ != nullptr) observer_->OnBreak(reason);
  if (!settings_.fullgraph || reason.kind == GraphBreakKind::kInterrupted) return true;
  RaiseUnsupported(reason);
  return false;
}

// To its end. An error that torch raised in the attempt only was about fakes: the frame has not been captured for it.
PyObject* FrameRunner::RunWithout(PyThreadState* thread, frame_ops::Frame* frame, const Made& made) {
  if (made.without == Without::kRaises) {
    frame_ops::FinishHookedFrame(thread, frame);
    return nullptr;
  }
  Ref result;
  if (made.without == Without::kRunsWhole) {
    const HookScope native(HookMode::kOff);
    result = Ref::Steal(RunUnhooked(thread, frame, 0));
  } else {
    result = Ref::Steal(RunUnhooked(thread, frame, 0));
  }
  if (result && made.unconfirmed_error && !Report(*made.unconfirmed_error)) return nullptr;
  return result.release();
}

FrameRunner::Made FrameRunner::Make(PyThreadState* thread, frame_ops::Frame* frame, const std::shared_ptr<Site>& site) {
  Made made;
  const SignalPause pause;
  if (frame_ops::HasPendingSignals()) return made;  // its handler must not run in the attempt
  const FrameView view = frame_ops::View(frame);
  if (!HasOnlyNames(view.builtins)) return made;
  Statistics& statistics = MutableStatistics();
  if (IsAtLimit(*site, view)) {
    ++statistics.eager_fallbacks;
    return made;
  }
  bool raised = false;
  if (!AllowsCompile(!site->empty(), view.code, &raised)) {
    if (raised) made.without = Without::kRaises;
    return made;
  }
  if (IsStreamRecorded()) {
    ReportRecordedStream(view.code, view.code == compiled_code_ && !std::exchange(recorded_stream_reported_, true));
    ++statistics.eager_fallbacks;
    return made;
  }
  LogRecompile(*site, view);
  AttemptResult attempt = Attempt(thread, frame);
  if (attempt.broke_at && !Report(*attempt.broke_at)) {
    made.without = Without::kRaises;
    return made;
  }
  // It was followed to its exception: what it calls is no frame to be captured whole by itself.
  if (attempt.exception_escaped && settings_.fullgraph) made.without = Without::kRunsWhole;
  made.unconfirmed_error = std::move(attempt.unconfirmed_error);
  if (!attempt.error.ok()) {
    ++statistics.bugs;
    ReportFailure(attempt.error, attempt.python_error, view.code, &raised);
    if (raised) made.without = Without::kRaises;
  }
  // The compiled function itself keeps its entry: guards see when it has tensor work, and its calls were captured too.
  const bool keeps_idle = settings_.fullgraph || (view.code == compiled_code_ && frame_ops::IsStarting(frame));
  if (attempt.entry == nullptr || (attempt.nothing_to_do && !keeps_idle)) {
    const bool passing = attempt.broke_at && (attempt.broke_at->kind == GraphBreakKind::kIntercepted ||
                                              attempt.broke_at->kind == GraphBreakKind::kInterrupted);
    if (!passing && ++site->compile_failures >= kMaxFailures) site->skip = true;
    ++statistics.eager_fallbacks;
    return made;
  }
  ++statistics.captures;
  if (attempt.entry->executable != nullptr) ++statistics.graphs;
  LogEntry(*attempt.entry, view.code);
  if (observer_ != nullptr) observer_->OnCaptured(*attempt.entry, attempt);
  site->Install(attempt.entry);
  made.entry = std::move(attempt.entry);
  return made;
}

}  // namespace framefuse
