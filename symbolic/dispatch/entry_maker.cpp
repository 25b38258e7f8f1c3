#include "symbolic/dispatch/entry_maker.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/recording_probe.h"
#include "common/config.h"
#include "common/coverage.h"
#include "common/logging.h"
#include "common/trace.h"
#include "frame_eval/hook.h"
#include "symbolic/ambient/signal_pause.h"
#include "symbolic/dispatch/compile_callbacks.h"
#include "symbolic/dispatch/frame_questions.h"
#include "symbolic/dispatch/reporting.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/messages/break_hints.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

// Above this frame stands one at its limit: what it calls would go through as many compilations of its own.
thread_local int frames_at_limit = 0;

class AtLimitScope {
 public:
  AtLimitScope() { ++frames_at_limit; }
  ~AtLimitScope() { --frames_at_limit; }
  AtLimitScope(const AtLimitScope&) = delete;
  AtLimitScope& operator=(const AtLimitScope&) = delete;
};

void CountWork(const AttemptResult& made) {
  Statistics& statistics = MutableStatistics();
  statistics.attempts += made.attempts;
  statistics.instructions += made.instructions;
  statistics.operators += made.operators;
  statistics.evaluation_seconds += made.evaluation_seconds;
  statistics.capture_seconds += made.capture_seconds;
  statistics.backend_seconds += made.backend_seconds;
}

// It ended for a reason of this moment, not of the code or its arguments.
bool IsPassing(const AttemptResult& attempt) {
  return attempt.broke_at && (attempt.broke_at->kind == GraphBreakKind::kIntercepted ||
                              attempt.broke_at->kind == GraphBreakKind::kInterrupted);
}

std::string TextOfError(const Ref& error) {
  const HookScope native(HookMode::kOff);
  const Ref text = Ref::Steal(PyObject_Str(error));
  PyErr_Clear();
  return text ? Utf8(text) : "";
}

std::vector<std::string> WhyNoneFits(const std::vector<std::shared_ptr<Entry>>& entries, const FrameView& view) {
  std::vector<std::string> texts;
  for (const std::shared_ptr<Entry>& e : entries) texts.push_back(WhyNot(*e, view));
  return texts;
}

std::string IdleText() {
  EagerFallback idle;
  idle.kind = FallbackKind::kNoTensorWork;
  return idle.Text();
}

std::string WhyNot(const AttemptResult& attempt, bool idle, PyCodeObject* code) {
  const auto text = [&](FallbackKind kind, std::string_view detail) { return MakeFallback(kind, code, detail).Text(); };
  if (attempt.backend_error) return text(FallbackKind::kBackendFailed, TextOfError(attempt.backend_error));
  if (!attempt.error.ok()) return text(FallbackKind::kBug, std::string(attempt.error.message()));
  if (attempt.raised) return text(FallbackKind::kRaises, "");
  if (idle) return IdleText();
  return text(FallbackKind::kNothingCaptured, attempt.broke_at ? attempt.broke_at->Text() : "");
}

constexpr std::int64_t kForAnyValues = 2;

MakerId NextMaker() {
  static MakerId next = 0;
  return ++next;
}

}  // namespace

OwnLimitScope::OwnLimitScope() : outer_(std::exchange(frames_at_limit, 0)) {}
OwnLimitScope::~OwnLimitScope() { frames_at_limit = outer_; }

EntryMaker::EntryMaker(AttemptSettings settings) : settings_(std::move(settings)), id_(NextMaker()) {}

PyCodeObject* EntryMaker::Shown(PyCodeObject* code) const {
  return code == compiled_code_ ? UserCodeOf(callable_, code) : code;
}

bool EntryMaker::Say(FallbackKind kind, PyCodeObject* code, std::string_view detail) {
  const FallbackSeverity severity = SeverityOf(kind);
  const bool is_refused = settings_.fullgraph && severity == FallbackSeverity::kRefused;
  const bool is_told = observer_ != nullptr || is_refused || TraceEnabled();
  if (!is_told && IsOldNews(kind, Shown(code), detail)) {
    CountFallback(kind);
    return true;
  }
  const EagerFallback fallback = MakeFallback(kind, Shown(code), detail);
  ReportFallback(fallback);
  if (TraceEnabled() && severity != FallbackSeverity::kCounted) TraceFallback(fallback);
  if (observer_ != nullptr) observer_->OnFallback(fallback);
  if (!is_refused) return true;
  RaiseUnsupported(fallback);
  return false;
}

bool EntryMaker::Report(const GraphBreakReason& reason, bool is_error) {
  if (reason.kind == GraphBreakKind::kSuspends) return true;
  ++MutableStatistics().graph_breaks;
  if (CountsKinds()) CountKind("break", GraphBreakName(reason.kind), true);
  const bool raises = (settings_.fullgraph || is_error) && reason.kind != GraphBreakKind::kInterrupted;
  const bool is_told = LogEnabled(LogArtifact::kGraphBreaks) || TraceEnabled() || observer_ != nullptr;
  if (!is_told && !raises) return true;
  const UserStack stack = CurrentStack();
  LogGraphBreak(reason, stack);
  if (TraceEnabled()) TraceBreak(reason, stack);
  if (observer_ != nullptr) observer_->OnBreak(reason, stack);
  if (raises) RaiseUnsupported(settings_.fullgraph ? "fullgraph=True" : "error_on_graph_break", reason, stack);
  return !raises;
}

// ---------------------------------------------------------------- making one

EntryMaker::Made EntryMaker::Raises() {
  Made made;
  made.without = Without::kRaises;
  return made;
}

EntryMaker::Made EntryMaker::None(FallbackKind kind, PyCodeObject* code, std::string_view detail) {
  return Say(kind, code, detail) ? Made() : Raises();
}

// Entries of the same program for other arguments. All modules are called by the same code of torch's: what differs
// between two of them did not change.
EntryMaker::Entries EntryMaker::Known(const Site& site, const FrameView& view) const {
  return Shown(view.code) != view.code ? site.EntriesOf(id_) : site.Entries();
}

void EntryMaker::LogRecompile(Site& site, const Entries& known, const FrameView& view) const {
  if (known.empty()) return;
  ++site.recompiles;
  ++MutableStatistics().recompiles;
  if (!LogEnabled(LogArtifact::kRecompiles)) return;
  PyCodeObject* shown = ShownCode(view);
  std::string text =
      absl::StrCat("recompiling ", QualifiedNameOf(shown), " (", FileNameOf(shown), ":", shown->co_firstlineno, ")");
  if (!settings_.name.empty()) absl::StrAppend(&text, " of ", settings_.name);
  absl::StrAppend(&text, CalledFrom(CurrentStack()));
  const bool detailed = config().verbose || LogDetailed(LogArtifact::kRecompiles);
  std::vector<std::string> hints;
  absl::flat_hash_set<std::string> said;
  for (const std::shared_ptr<Entry>& e : known) {
    const std::string failed = WhyNot(*e, view);
    if (said.insert(failed).second || detailed) absl::StrAppend(&text, "\n  ", failed);
    if (detailed) absl::StrAppend(&text, "\n", static_cast<const CompiledEntry&>(*e).guards->PythonText("guards"));
    std::string hint = HintOfRecompile(failed);
    if (!hint.empty() && said.insert(hint).second) hints.push_back(std::move(hint));
  }
  for (const std::string& hint : hints) absl::StrAppend(&text, "\n  hint: ", hint);
  FF_LOG(kRecompiles) << text;
}

// In which sizes the tensors at hand differ from those of an entry, and which integers do.
void EntryMaker::NoteOtherSizes(const Entries& known, const FrameView& view) const {
  if (settings_.sizes->mode() == DynamicMode::kNever) return;
  for (const std::shared_ptr<Entry>& e : known) {
    for (const GuardProgram::OtherSizes& other : static_cast<const CompiledEntry&>(*e).guards->FindOtherSizes(view)) {
      if (other.is_number() && !config().specialize_int) settings_.sizes->NoteNumber(view.code, other.source);
      for (const int dim : other.dims) settings_.sizes->Note(view.code, other.source, dim);
      for (const int dim : other.strides) settings_.sizes->NoteStride(view.code, other.source, dim);
    }
    if (config().specialize_int) continue;
    const NumbersWritten& written = static_cast<const CompiledEntry&>(*e).written_numbers;
    for (const auto* sources : {&written.changed, &written.kept}) {
      for (const std::string& source : *sources) settings_.sizes->NoteNumber(view.code, source);
    }
  }
}

std::int64_t EntryMaker::Limit() const {
  return settings_.recompile_limit >= 0 ? settings_.recompile_limit : config().recompile_limit;
}

EntryMaker::WhichLimit EntryMaker::LimitMet(Site& site, const FrameView& view) const {
  site.RemoveDead();
  const bool may_replace = !config().fail_on_recompile_limit_hit && site.died_unfound() == 0;
  if (static_cast<std::int64_t>(site.CountOf(id_) + site.died_unfound()) >= Limit()) {
    return may_replace && site.MayReplace({id_, nullptr}) ? WhichLimit::kNone : WhichLimit::kOwn;
  }
  const std::int64_t of_all = config().accumulated_recompile_limit;
  const BorrowedRefOf<PyCodeObject> code(view.code);
  if (static_cast<std::int64_t>(CodeCache::CountShown(code, site, Shown(view.code))) < of_all) return WhichLimit::kNone;
  return may_replace && site.MayReplace({Site::kAllMakers, Shown(view.code)}) ? WhichLimit::kNone : WhichLimit::kOfAll;
}

std::string EntryMaker::TextOf(WhichLimit limit) const {
  if (limit == WhichLimit::kOwn) {
    return absl::StrCat(settings_.recompile_limit >= 0 ? "recompile_limit" : "config.recompile_limit", " is ", Limit());
  }
  const std::int64_t of_all = config().accumulated_recompile_limit;
  return absl::StrCat("config.accumulated_recompile_limit, which counts for all compiled objects, is ", of_all);
}

void EntryMaker::Install(const std::shared_ptr<CompiledEntry>& entry, const FrameView& view, Site& site) const {
  PyCodeObject* shown = Shown(view.code);
  const BorrowedRefOf<PyCodeObject> code(view.code);
  const auto replace = [&](Site::Kin kin) {
    if (!site.Replace(kin, entry)) return false;
    FF_LOG(kRecompiles) << "the entry of " << QualifiedNameOf(shown) << " that was used least recently leaves";
    return true;
  };
  while (static_cast<std::int64_t>(site.CountOf(id_)) >= Limit() && replace({id_, nullptr})) continue;
  const std::int64_t of_all = config().accumulated_recompile_limit;
  while (static_cast<std::int64_t>(CodeCache::CountShown(code, site, shown)) >= of_all &&
         replace({Site::kAllMakers, shown})) {
    continue;
  }
  site.Install(entry, id_, shown);
}

void EntryMaker::NoteFailures(Site& site, const Entries& known, const FrameView& view) {
  for (const std::shared_ptr<Entry>& e : known) site.failed_guards.Note(WhyNot(*e, view));
}

EntryMaker::Made EntryMaker::AtLimit(Site& site, const FrameView& view, WhichLimit which) {
  const std::string limit = TextOf(which);
  const bool fails = config().fail_on_recompile_limit_hit;
  if (const bool first = site.NoteLimit(id_); first || fails) {
    const std::vector<std::shared_ptr<Entry>> entries = site.Entries();
    if (first) NoteFailures(site, Known(site, view), view);
    const std::string failed = entries.empty() ? "what it expects ends with each call" : site.failed_guards.Most();
    if (fails) {
      RaiseRecompileLimit(ShownCode(view), settings_.name, limit, failed);
      return Raises();
    }
    // Of code without tensor work (a library's, between two breaks) nobody wants to hear.
    const bool matters = std::any_of(entries.begin(), entries.end(), [](const std::shared_ptr<Entry>& e) {
      return static_cast<const CompiledEntry&>(*e).executable != nullptr;
    });
    if ((matters || entries.empty()) && !settings_.fullgraph) {
      WarnRecompileLimit(ShownCode(view), settings_.name, limit, failed);
    }
  }
  Made made = None(FallbackKind::kRecompileLimit, ShownCode(view), limit);
  if (made.without == Without::kRunsAsPython) made.without = Without::kRunsAtLimit;
  return made;
}

// The last entries before the limit are for any values.
ValuePlaces::Rely EntryMaker::HowToRely(const Site& site) const {
  if (!config().guard_values) return ValuePlaces::Rely::kNever;
  if (settings_.fullgraph) return ValuePlaces::Rely::kAlways;
  const std::int64_t left = Limit() - static_cast<std::int64_t>(site.CountOf(id_));
  return left > kForAnyValues ? ValuePlaces::Rely::kWhileFew : ValuePlaces::Rely::kNever;
}

AttemptResult EntryMaker::Attempt(PyThreadState* thread, frame_ops::Frame* frame, const Site& site) const {
  // Fakes are counted over all threads: a capture that shared its time with another one's cannot tell whose they are.
  static int running = 0;
  static std::uint64_t begun = 0;
  const bool began_alone = running++ == 0;
  const std::uint64_t number = ++begun;
  const std::int64_t fakes = tracing::Tracer::LiveFakes();
  const std::int64_t classes = MadeClasses::Leaked();
  settings_.values->Begin(HowToRely(site));
  AttemptResult made = CaptureFrame(thread, frame, settings_);
  --running;
  const bool check = config().check_fakes_dead && began_alone && begun == number;
  if (check && tracing::Tracer::LiveFakes() > fakes) PyGC_Collect();  // cycles of the program's own
  if (check && made.error.ok() && tracing::Tracer::LiveFakes() > fakes) {
    made.error = absl::InternalError(
        absl::StrCat(tracing::Tracer::LiveFakes() - fakes, " fake tensors are alive after the capture"));
  }
  if (check && made.error.ok() && MadeClasses::Leaked() > classes) {
    made.error = absl::InternalError("a class made in the capture is alive after it");
  }
  CountWork(made);
  return made;
}

EntryMaker::Made EntryMaker::Make(PyThreadState* thread, frame_ops::Frame* frame, Site& site,
                                  const GraphBreakReason* after) {
  const SignalPause pause;
  const FrameView view = frame_ops::View(frame);
  // Its handler must not run in the attempt.
  if (frame_ops::HasPendingSignals()) return None(FallbackKind::kSignal, ShownCode(view));
  if (!HasOnlyNames(view.builtins)) return None(FallbackKind::kBuiltins, ShownCode(view));
  if (frames_at_limit > 0) return None(FallbackKind::kBelowLimit, ShownCode(view));
  if (const WhichLimit limit = LimitMet(site, view); limit != WhichLimit::kNone) return AtLimit(site, view, limit);
  bool raised = false;
  const Entries known = Known(site, view);
  const auto why = [&] {
    return known.empty() ? std::string("nothing of it is compiled yet") : WhyNot(*known.front(), view);
  };
  if (GetStance() == Stance::kEagerThenCompile && known.empty() && frame_ops::IsStarting(frame) &&
      first_calls_.IsFirst(view, *settings_.sizes)) {
    return None(FallbackKind::kStance, ShownCode(view));
  }
  // Nobody expects an entry of a function on the way that has no tensors, or where none could be made before.
  const bool first_expected =
      site.retries.last_failure().empty() && (view.code == compiled_code_ || HasTensorInSlots(view));
  if (!AllowsCompile(!known.empty(), !known.empty() || first_expected, ShownCode(view), why, &raised)) {
    if (!raised) return None(FallbackKind::kStance, ShownCode(view));
    return Raises();
  }
  if (IsStreamRecorded()) {
    if (view.code == compiled_code_ && !std::exchange(recorded_stream_reported_, true)) {
      WarnRecordedStream(ShownCode(view));
    }
    return None(FallbackKind::kRecordedStream, ShownCode(view));
  }
  if (!settings_.fullgraph && !site.retries.MayTry()) return Waiting(view, site, after);
  return Compile(thread, frame, site, known);
}

EntryMaker::Made EntryMaker::Waiting(const FrameView& view, const Site& site, const GraphBreakReason* after) {
  const std::string& why = site.retries.last_failure();
  if (why != IdleText()) return None(FallbackKind::kWaiting, ShownCode(view), why);
  if (after == nullptr) return None(FallbackKind::kIdleAgain, ShownCode(view));
  const std::string place = absl::StrCat(after->file, ":", after->line, " in ", after->function);
  return None(FallbackKind::kIdleRest, ShownCode(view), absl::StrCat(after->Text(), " (", place, ")"));
}

EntryMaker::Made EntryMaker::Compile(PyThreadState* thread, frame_ops::Frame* frame, Site& site, const Entries& known) {
  const FrameView view = frame_ops::View(frame);
  const CompileIdScope id(site.NextCompileId());
  FollowTraceFolder();
  NoteFailures(site, known, view);
  LogRecompile(site, known, view);
  NoteOtherSizes(known, view);
  const bool starting = frame_ops::IsStarting(frame);
  if (!TellCompileBegins()) return Raises();
  TracedCompile traced;
  if (TraceEnabled()) traced = BeginTracing(frame, ShownCode(view), settings_.name, WhyNoneFits(known, view));
  AttemptResult attempt = Attempt(thread, frame, site);
  if (attempt.entry != nullptr) attempt.entry->id = CurrentCompileId();
  if (attempt.entry != nullptr && TraceEnabled()) attempt.entry->use = CountUse(CurrentCompileId());
  if (TraceEnabled() && traced.code != nullptr) TraceCompile(traced, attempt);
  Made made = AfterAttempt(std::move(attempt), view, starting, site);
  return TellCompileEnds() ? std::move(made) : Raises();
}

EntryMaker::Made EntryMaker::AfterAttempt(AttemptResult attempt, const FrameView& view, bool starting, Site& site) {
  Made made;
  if (attempt.broke_at && !Report(*attempt.broke_at, attempt.break_is_error)) return Raises();
  if (lazy_.AreMade(attempt, view.code)) {
    return None(FallbackKind::kNothingCaptured, ShownCode(view), attempt.broke_at->Text());
  }
  // The compiled function itself keeps its entry: guards see when it has tensor work, and its calls were captured too.
  const bool of_compiled = view.code == compiled_code_ && (starting || frame_ops::IsGeneratorCode(view.code));
  const bool keeps_idle = settings_.fullgraph || of_compiled;
  const bool idle = attempt.nothing_to_do && !keeps_idle;
  if (attempt.entry != nullptr && !idle) {
    Statistics& statistics = MutableStatistics();
    ++statistics.captures;
    if (attempt.entry->executable != nullptr) ++statistics.graphs;
    statistics.nodes += attempt.nodes;
    statistics.symbols += attempt.symbols;
    site.retries.NoteSuccess();
    LogEntry(*attempt.entry, ShownCode(view));
    LogTimes(attempt, ShownCode(view));
    if (observer_ != nullptr) observer_->OnCaptured(*attempt.entry, attempt);
    Install(attempt.entry, view, site);
    made.entry = std::move(attempt.entry);
    return made;
  }
  const bool shows_error = attempt.backend_error && !config().suppress_errors;
  if (!IsPassing(attempt) && !shows_error) site.retries.NoteFailure(WhyNot(attempt, idle, ShownCode(view)));
  if (attempt.backend_error && !shows_error) {
    return None(FallbackKind::kBackendFailed, ShownCode(view), TextOfError(attempt.backend_error));
  }
  if (!attempt.error.ok()) {
    ++MutableStatistics().bugs;
    bool raised = false;
    ReportFailure(attempt.error, attempt.backend_error, ShownCode(view), &raised);
    return raised ? Raises() : None(FallbackKind::kBug, ShownCode(view), std::string(attempt.error.message()));
  }
  if (attempt.raised) {
    // It was followed to its exception: what it calls is no frame to be captured whole by itself.
    if (settings_.fullgraph) made.without = Without::kRunsWhole;
    made.unconfirmed_error = std::move(attempt.unconfirmed_error);
    made.raised = std::move(attempt.raised);
    return made;
  }
  if (idle) return None(FallbackKind::kNoTensorWork, ShownCode(view));
  return None(FallbackKind::kNothingCaptured, ShownCode(view), attempt.broke_at ? attempt.broke_at->Text() : "");
}

// ---------------------------------------------------------------- frames without one

PyObject* EntryMaker::RunWithout(PyThreadState* thread, frame_ops::Frame* frame, const Made& made) {
  const RefOf<PyCodeObject> code = RefOf<PyCodeObject>::Create(ShownCode(frame_ops::View(frame)));
  Ref result;
  switch (made.without) {
    case Without::kRaises:
      frame_ops::FinishHookedFrame(thread, frame);
      return nullptr;
    case Without::kRunsAsPython:
      result = Ref::Steal(RunUnhooked(thread, frame, 0));
      break;
    case Without::kRunsWhole: {
      const HookScope native(HookMode::kOff);
      result = Ref::Steal(RunUnhooked(thread, frame, 0));
      break;
    }
    case Without::kRunsAtLimit: {
      const AtLimitScope at_limit;
      result = Ref::Steal(RunUnhooked(thread, frame, 0));
      break;
    }
  }
  if (made.raised && !ReportErrorOfAttempt(made, code.get(), static_cast<bool>(result))) return nullptr;
  return result.release();
}

// The attempt ended in an exception, Python has run the frame: did it get the same one?
bool EntryMaker::ReportErrorOfAttempt(const Made& made, PyCodeObject* code, bool returned) {
  if (!returned && PyErr_GivenExceptionMatches(PyErr_Occurred(), made.raised->type) != 0) {
    return Say(FallbackKind::kRaises, code);
  }
  if (returned && made.unconfirmed_error) {
    CountFallback(FallbackKind::kRaisedInCapture);
    return Report(*made.unconfirmed_error, false);
  }
  if (returned) return Say(FallbackKind::kRaisedInCapture, code, made.raised->text);
  // The program's own exception is what goes on.
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  if (!Say(FallbackKind::kRaisedInCapture, code, made.raised->text)) PyErr_Clear();
  frame_ops::RestoreRaised(thread, std::move(error));
  return true;
}

PyObject* EntryMaker::RunAsPython(PyThreadState* thread, frame_ops::Frame* frame, FallbackKind kind,
                                  std::string_view detail) {
  if (Say(kind, ShownCode(frame_ops::View(frame)), detail)) return RunUnhooked(thread, frame, 0);
  frame_ops::FinishHookedFrame(thread, frame);
  return nullptr;
}

PyObject* EntryMaker::RunAfterFailedPlan(PyThreadState* thread, frame_ops::Frame* frame, const std::string& error) {
  const RefOf<PyCodeObject> code = RefOf<PyCodeObject>::Create(ShownCode(frame_ops::View(frame)));
  Ref result = Ref::Steal(RunUnhooked(thread, frame, 0));
  if (!result) {
    CountFallback(FallbackKind::kRaises);
    return nullptr;
  }
  return Say(FallbackKind::kPlanFailed, code.get(), error) ? result.release() : nullptr;
}

PyObject* EntryMaker::RunOtherWay(PyThreadState* thread, frame_ops::Frame* frame, const CompiledEntry& entry,
                                  const CompiledEntry::Failure& failure) {
  const RefOf<PyCodeObject> code = RefOf<PyCodeObject>::Create(ShownCode(frame_ops::View(frame)));
  const std::string detail = failure.text;
  std::optional<ExpectedOutput> branch;  // the entry may go while the frame runs
  if (failure.expected >= 0) branch = entry.expects.outputs[static_cast<std::size_t>(failure.expected)];
  DeferredFact fact;
  if (failure.deferred >= 0) fact = entry.expects.deferred[static_cast<std::size_t>(failure.deferred)];
  std::optional<DeferredWarning> warning;
  if (failure.warning >= 0) warning = entry.expects.warnings[static_cast<std::size_t>(failure.warning)];
  Ref result = Ref::Steal(RunUnhooked(thread, frame, 0));
  if (!result) {
    CountFallback(FallbackKind::kRaises);
    return nullptr;
  }
  if (branch) settings_.raising->Refute(branch->code, branch->instruction);
  if (warning) settings_.raising->Refute(warning->code, warning->instruction);
  if (failure.deferred >= 0) settings_.unbacked->NoteMiss(fact.code, fact.instruction);
  const FallbackKind kind = branch    ? FallbackKind::kOtherWay
                            : warning ? FallbackKind::kHeardWarning
                                      : FallbackKind::kDeferredFact;
  return Say(kind, code.get(), detail) ? result.release() : nullptr;
}

}  // namespace framefuse
