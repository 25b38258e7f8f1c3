#include "symbolic/attempt/attempt.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/config.h"
#include "common/logging.h"
#include "guards/leaf/saved_tensor_hooks.h"
#include "guards/leaf/tensor.h"
#include "symbolic/ambient/quiet.h"
#include "symbolic/attempt/breaks_as_errors.h"
#include "symbolic/attempt/capture_log.h"
#include "symbolic/attempt/entry_guards.h"
#include "symbolic/attempt/exported_graph.h"
#include "symbolic/attempt/run_plan.h"
#include "symbolic/attempt/under_checkpoint.h"
#include "symbolic/executables/executable.h"
#include "symbolic/executables/plan_inputs.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/reconstruct/close.h"

namespace framefuse {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Driver {
 public:
  Driver(PyThreadState* thread, frame_ops::Frame* frame, const AttemptSettings& settings)
      : thread_(thread), frame_(frame), settings_(settings), plan_(settings) {}

  AttemptResult Run() {
    const double start = Now();
    Next next = Next::kAgain;
    while (next == Next::kAgain && ++result_.attempts <= kMaxAttempts) {
      closed_.reset();
      close_status_ = absl::OkStatus();
      fx_graph_ = FxGraph();
      next = After(Once(/*scan=*/false));
      if (next == Next::kEnd && EndedForUnbacked()) next = WithoutUnbacked();
    }
    if (result_.entry == nullptr && reason_ && !result_.broke_at) result_.broke_at = reason_;
    if (result_.broke_at && settings_.unbacked) settings_.unbacked->Explain(&*result_.broke_at);
    result_.capture_seconds = Now() - start - result_.backend_seconds;
    if (result_.entry != nullptr && fx_graph_.module) CompileByPython();
    return std::move(result_);
  }

 private:
  static constexpr int kMaxAttempts = 40;

  enum class Next : std::uint8_t { kAgain, kEnd };

  Next After(const AttemptFound& found) {
    result_.break_is_error = found.break_is_error;
    if (const std::optional<Next> next = ForOtherSettings(found)) return *next;
    return found.done ? Next::kEnd : ForAnotherStop(found);
  }

  // The run taught what the next one needs from its beginning on; nothing: it did not.
  std::optional<Next> ForOtherSettings(const AttemptFound& found) {
    if (std::exchange(world_changed_, false)) return FromTheBeginning();
    if (std::exchange(fx_graph_.needs_static_sizes, false) || found.needs_static_sizes) {
      fx_graph_.refused_node = -1;  // the next run may come to no graph
      plan_.TakeStaticSizes();
      return FromTheBeginning();
    }
    for (int* const node : {&fx_graph_.refused_node, &earlier_end_}) {  // made anew, it ends before that
      if (*node >= 0) return plan_.EndBefore(std::exchange(*node, -1)) ? FromTheBeginning() : Next::kEnd;
    }
    if (std::exchange(acts_before_it_looks_, false)) {
      plan_.ExpectNoBranch();
      return FromTheBeginning();
    }
    if (found.needs_frames) {
      plan_.EvaluateAllFrames();
      return Next::kAgain;
    }
    if (std::exchange(refuted_, false)) return FromTheBeginning();
    if (std::exchange(writes_new_numbers_, false) || plan_.IsLeftAnew()) return FromTheBeginning();
    if (found.warned && plan_.HearDueWarnings()) return FromTheBeginning();
    if (found.leaf && plan_.Inline(found.leaf)) return FromTheBeginning();
    if (found.left_modes && !settings_.fullgraph) {
      plan_.BreakAtModes();
      return FromTheBeginning();
    }
    return std::nullopt;
  }

  // Without an entry: perhaps there is one that breaks where a value is read.
  bool EndedForUnbacked() const {
    return used_unbacked_ && plan_.takes_unbacked() && result_.entry == nullptr && result_.error.ok();
  }
  Next WithoutUnbacked() {
    plan_.StartOverWithoutUnbacked();
    refuted_ = result_.nothing_to_do = false;
    result_.raised.reset();
    result_.unconfirmed_error.reset();
    result_.broke_at.reset();
    return Next::kAgain;
  }
  Next FromTheBeginning() {
    plan_.BeginAnew();
    return Next::kAgain;
  }

  // The graph is to end elsewhere: before a break, or earlier than the stop that could not be closed.
  Next ForAnotherStop(const AttemptFound& found) {
    if (found.broke) {
      if (plan_.TryWithoutSymbols(found)) return FromTheBeginning();
      reason_ = found.broke->reason;
      // An interrupted attempt is dropped: the frame runs as Python, and the signal's handler in it.
      const bool is_error = settings_.fullgraph || found.break_is_error;
      if ((is_error && reason_->kind != GraphBreakKind::kSuspends) || reason_->kind == GraphBreakKind::kInterrupted) {
        result_.broke_at = reason_;
        return Next::kEnd;
      }
      plan_.StopAt(*found.broke);
      return Next::kAgain;
    }
    if (found.mismatch || !IsGraphBreak(close_status_)) return Next::kEnd;
    // No recipe at the stop: each enclosing frame's call, then the last place where all was rebuildable.
    if (plan_.StopFurtherOut()) return Next::kAgain;
    if (!plan_.Scan()) return Next::kEnd;
    ++result_.attempts;
    const AttemptFound scan = Once(/*scan=*/true);
    if (scan.broke) reason_ = scan.broke->reason;
    if (!scan.last_rebuildable) return Next::kEnd;
    plan_.StopAt(*scan.last_rebuildable);
    return Next::kAgain;
  }

  // The driver of one capture's stop.
  class Listener final : public BreakController::StopListener {
   public:
    Listener(Driver& driver, Capture& capture) : driver_(driver), capture_(capture) {}
    void AtStop(Activation& innermost) override { driver_.AtStop(capture_, innermost); }
    bool IsRebuildable(Activation& innermost) override {
      return !capture_.breaks().left_modes() && framefuse::IsRebuildable(capture_, innermost);
    }

   private:
    Driver& driver_;
    Capture& capture_;
  };

  void AtStop(Capture& capture, Activation& innermost) {
    if (capture.breaks().left_modes()) {
      close_status_ = LeftModes();
      return;
    }
    absl::StatusOr<Closed> closed = CloseAtStop(capture, innermost, *reason_, true);
    if (!closed.ok()) {
      close_status_ = closed.status();
      NoteEarlierEnd(capture);
      return;
    }
    closed_ = std::make_unique<Closed>(*std::move(closed));
    Build(capture);
  }

  // Of a graph that could not be closed.
  void NoteEarlierEnd(Capture& capture) {
    const std::optional<tracing::TensorBreak>& pending = capture.tracer().PendingBreak();
    if (!pending || pending->before_node < 0 || settings_.fullgraph) return;
    earlier_end_ = pending->before_node;
    plan_.SayWhyItEnds(absl::StrCat(pending->context, ": ", pending->explanation));
  }

  static absl::Status LeftModes() {
    return MakeGraphBreak(GraphBreakKind::kGlobalTorchState, "a torch function mode that stays on");
  }

  AttemptFound Once(bool scan) {
    AttemptFound found;
    PrepareForSharded();
    modules_before_ = PyDict_GET_SIZE(PyImport_GetModuleDict());
    const CaptureOptions options = plan_.Options();
    Quiet quiet;
    Capture capture(thread_, frame_, options);
    Listener listener(*this, capture);
    capture.breaks().set_listener(&listener);
    if (plan_.hears_due_warnings()) capture.tracer().around().heard_warnings = tracing::HeardWarnings::kDue;
    if (plan_.stop()) capture.breaks().StopAt(*plan_.stop());
    if (scan) capture.breaks().TrackRebuildable();
    HookScope hook(HookMode::kCapture, &capture.frame_handler());
    tracing::Tracer::Scope tracing(capture.tracer());
    const double start = Now();
    RunResult run = capture.Run();
    if (run.outcome == Outcome::kReturned) {
      result_.evaluation_seconds += Now() - start;
      result_.instructions += static_cast<std::int64_t>(capture.breaks().control().executed);
      result_.operators += capture.tracer().NodeCount();
    }
    found.left_modes = capture.breaks().left_modes() && run.outcome != Outcome::kRaised &&
                       !capture.breaks().needs_frames() && !capture.breaks().needs_static_sizes();
    found.symbolic = capture.symbols().MayFix(settings_.fullgraph);
    found.only_arrays = !capture.symbols().any_backed();
    used_unbacked_ = used_unbacked_ || !capture.values().definitions().empty();
    RefutePinned(capture);
    switch (refuted_ ? Outcome::kUnwound : run.outcome) {
      case Outcome::kReturned:
        found.needs_static_sizes = !capture.tracer().sizes().Fit();
        if (found.needs_static_sizes) break;
        if (found.left_modes) {
          found.broke = BreakAtReturn(capture, frame_ops::Code(frame_), LeftModes());
          break;
        }
        AfterReturn(capture, run, &found);
        break;
      case Outcome::kRaised:
        result_.raised = TakeRaised(thread_);
        if (result_.raised->type) {
          result_.raised->type = Ref::Create(capture.made().NearestKnown(result_.raised->type));
        }
        result_.unconfirmed_error = capture.breaks().unconfirmed_error();
        found.done = true;
        break;
      case Outcome::kUnwound:
        if (refuted_) break;
        found.needs_frames = capture.breaks().needs_frames();
        found.needs_static_sizes = capture.breaks().needs_static_sizes() || !capture.tracer().sizes().Fit();
        if (found.needs_frames || found.needs_static_sizes) break;
        AfterUnwinding(capture, &found);
        break;
      default:
        Fail(absl::InternalError("the evaluator paused or yielded in a capture"));
        found.done = true;
    }
    found.break_is_error = found.broke && BreaksAreErrors(capture.writes());
    capture.breaks().Unwind();
    PyErr_Clear();
    return found;
  }

  void TakeNoUnbacked() {
    plan_.TakeNoUnbacked();
    refuted_ = true;
  }

  // A graph that computes a number serves no other call if the number is looked at.
  void RefutePinned(Capture& capture) {
    for (const int symbol : capture.tracer().sizes().pinned_unbacked()) {
      for (const ValueReads::Definition& d : capture.values().definitions()) {
        if (d.symbol == symbol)
          settings_.unbacked->Refute(d.code, d.instruction, capture.symbols().WhereNeeded(symbol));
      }
      refuted_ = true;
    }
  }

  void AfterReturn(Capture& capture, const RunResult& run, AttemptFound* found) {
    absl::StatusOr<Closed> closed = CloseAtReturn(capture, run.value.object, run.value.source, true);
    if (closed.ok()) {
      closed_ = std::make_unique<Closed>(*std::move(closed));
      Build(capture);
      found->done = !IsGraphBreak(close_status_);
      if (!found->done) found->broke = BreakAtReturn(capture, frame_ops::Code(frame_), close_status_);
    } else if (IsGraphBreak(closed.status())) {
      NoteEarlierEnd(capture);
      found->broke = BreakAtReturn(capture, frame_ops::Code(frame_), closed.status());
    } else {
      Fail(closed.status());
      found->done = true;
    }
  }

  void AfterUnwinding(Capture& capture, AttemptFound* found) {
    found->warned = capture.tracer().Warned();
    found->leaf = capture.breaks().leaf();
    found->broke = capture.breaks().record();
    // A long way without tensor work is Python's: what it calls is captured for itself.
    const bool idle =
        found->broke && found->broke->reason.kind == GraphBreakKind::kTooLong && capture.tracer().NodeCount() == 0;
    if (found->broke && (!capture.evaluated() || idle)) {
      result_.broke_at = found->broke->reason;
      found->done = true;
    }
    if (capture.breaks().stopped()) {
      found->broke.reset();
      found->done = result_.entry != nullptr || !result_.error.ok();
    }
    found->mismatch = capture.breaks().stop_mismatch();
    found->last_rebuildable = capture.breaks().last_rebuildable();
    if (found->mismatch) Fail(absl::InternalError("the re-run of a capture took another way"));
  }

  void Fail(absl::Status status) {
    if (result_.error.ok()) result_.error = std::move(status);
  }

  // False: there is none, and it is noted why.
  bool CompileByBackend(Capture& capture, Closed& closed) {
    if (settings_.exported != nullptr) settings_.exported->Take(capture, closed);
    const double start = Now();
    const TorchState end = TorchState::Current();
    closed.entry->run_state.value_or(start_).ApplyToOperators();
    absl::StatusOr<std::shared_ptr<TensorWork>> executable = CompilePlan(closed, settings_.backend, settings_.mode);
    end.ApplyToOperators();
    result_.backend_seconds += Now() - start;
    if (executable.ok()) {
      closed.entry->executable = *std::move(executable);
      if (settings_.exported != nullptr) {
        closed.entry->executable = settings_.exported->Watch(closed.entry->executable);
      }
    } else if (!absl::IsUnimplemented(executable.status())) {
      Fail(executable.status());
    } else if (!capture.values().definitions().empty()) {
      TakeNoUnbacked();
    } else {
      close_status_ = MakeGraphBreak(GraphBreakKind::kTensorMutation, executable.status().message().data());
    }
    return executable.ok();
  }

  // Numbers that a capture writes itself will have changed at the next call. Nobody need see that first.
  bool NoteWrittenNumbers() {
    DynamicSizes& sizes = *settings_.sizes;
    if (!sizes.learns_numbers() || config().specialize_int) return false;
    const PyCodeObject* code = frame_ops::Code(frame_);
    bool any = false;
    for (const std::string& source : closed_->entry->written_numbers.changed) {
      if (sizes.IsNotedNumber(code, source)) continue;
      sizes.NoteNumber(code, source);
      any = true;
    }
    return any;
  }

  // Guards, executable: the entry is whole. Runs inside the attempt, with its fakes alive.
  void Build(Capture& capture) {
    tracing::Tracer::Suspended suspended;
    HookScope hook(HookMode::kOff);
    writes_new_numbers_ = NoteWrittenNumbers();
    if (writes_new_numbers_) return;
    if (!capture.writes().noted_classes().empty()) return LeaveSlotNames(capture);
    Closed& closed = *closed_;
    CompiledEntry& entry = *closed.entry;
    const bool for_python = static_cast<bool>(settings_.fx_backend);
    const bool acts = for_python ? ActsBesidesWrites(closed.graph) : ActsOutside(closed.graph);
    acts_before_it_looks_ = !entry.expects.outputs.empty() && acts;
    RefutePinned(capture);
    if (!capture.values().definitions().empty() && HasSideEffects(closed.graph)) TakeNoUnbacked();
    if (!capture.draws().all().empty() && !MayDrawBefore(closed.graph, capture.draws().all().size())) TakeNoUnbacked();
    if (acts_before_it_looks_ || refuted_) return;
    entry.expects.raising = settings_.raising;
    entry.expects.deferred = capture.symbols().Deferred(capture.values().definitions());
    entry.expects.unbacked = settings_.unbacked;
    if (std::string why = WhyLeftToCheckpoint(capture, closed, for_python); !why.empty()) {
      closed_.reset();  // with what the capture has made
      return plan_.LeaveToCheckpoint(std::move(why));
    }
    result_.nodes = NodeCountOf(closed.graph);
    if (closed.graph.graph != nullptr) result_.symbols = std::ssize(closed.graph.graph->exprs.symbols());
    // Torch's state is set by the entry itself.
    const bool no_tensor_work = result_.nodes == 0 && (for_python || capture.fx().nodes().empty());
    const bool sets_gradients = !for_python && !closed.graph.gradient_effects.empty();
    const auto asks = [](const tracing::TracedInput& in) { return in.asked_for_grad; };
    const bool asks_for_grad = !for_python && absl::c_any_of(closed.graph.inputs, asks);
    const bool has_work = !no_tensor_work || !closed.fx_outputs.empty() || sets_gradients || asks_for_grad;
    if (no_tensor_work && !entry.resume) result_.nothing_to_do = true;
    if (for_python && has_work && !BuildForPython(capture, closed)) return;
    AddInputs(capture, closed);
    if (for_python) entry.inputs = fx_graph_.inputs;
    entry.sizes = capture.symbols().Close(capture.objects().tensor_inputs());
    capture.objects().GuardDistinctObjects();
    if (absl::Status status = MakeGuards(capture, entry); !status.ok()) return Fail(std::move(status));
    entry.operations = OperationsOf(capture.fx());
    LogCapture(capture, closed, frame_);
    if (settings_.keeps_graph_text || WantsGraphText() || IsKept()) entry.graph_text = GraphText(closed.graph);
    if (has_work && !for_python && !CompileByBackend(capture, closed)) return;
    if (absl::Status s = CheckOnLiveState(entry); !s.ok()) {
      // What torch's code imported by itself, or Python code that compiled the graph, has changed what was read before.
      world_changed_ = PyDict_GET_SIZE(PyImport_GetModuleDict()) > modules_before_ ||
                       (settings_.fx_backend && !std::exchange(tried_again_, true));
      return world_changed_ ? void() : Fail(s);
    }
    if (entry.resume) result_.broke_at = entry.resume->reason;
    result_.entry = std::move(closed.entry);
  }

  // The entry is about to run, and Python would leave them: guards that were made before do not hold afterwards.
  void LeaveSlotNames(Capture& capture) {
    if (!capture.writes().WriteSlotNames()) {
      return Fail(absl::InternalError("a class does not keep the names of its slots"));
    }
    world_changed_ = true;
  }

  // False: refused, or failed.
  bool BuildForPython(Capture& capture, const Closed& closed) {
    absl::StatusOr<FxGraph> graph = BuildFx(capture, closed, settings_.fx_backend, config().verify_fx);
    if (!graph.ok()) {
      Fail(graph.status());
      return false;
    }
    fx_graph_ = *std::move(graph);
    fx_graph_.needs_static_sizes |= !settings_.sizes->takes_sizes() && !fx_graph_.symbols.empty();
    if (fx_graph_.needs_static_sizes) return false;
    if (fx_graph_.needs_no_unbacked) {
      fx_graph_ = FxGraph();
      TakeNoUnbacked();
      return false;
    }
    if (fx_graph_.refused_node >= 0) {
      FF_LOG(kGraphBreaks) << "an FX graph is made anew without its end: " << fx_graph_.why_refused;
      if (fx_graph_.told != nullptr) plan_.SayWhyItEnds(fx_graph_.told);
      return false;
    }
    fx_facts_ = FactsOf(fx_graph_, closed, capture);
    // Nobody takes back a history that a write gave an input.
    acts_before_it_looks_ =
        !fx_facts_.expected.empty() && absl::c_any_of(fx_facts_.writes, [](const FxWrite& w) { return w.followed; });
    if (acts_before_it_looks_) {
      fx_graph_ = FxGraph();
      return false;
    }
    const int raises = NodeAfterFollowedWrite(*closed.graph.graph, fx_facts_.writes);
    if (raises < 0 || settings_.fullgraph) return true;
    fx_graph_ = FxGraph();
    fx_graph_.refused_node = raises;
    plan_.EndBeforeError();
    return false;
  }

  void CompileByPython() {
    const SavedTensorHooksUncalled uncalled;
    const double start = Now();
    const TorchState end = TorchState::Current();
    result_.entry->run_state.value_or(start_).ApplyToOperators();
    result_.entry->executable = CompileFx(fx_graph_, std::move(fx_facts_), settings_.fx_backend);
    end.ApplyToOperators();
    result_.backend_seconds += Now() - start;
    if (result_.entry->executable != nullptr) return;
    result_.entry.reset();
    if (PyErr_Occurred() == nullptr) return;  // it runs as Python
    result_.backend_error = frame_ops::FetchRaised(thread_);
    Fail(absl::AbortedError("the FX backend raised"));
  }

  // Guards run once on live state before an entry is installed: they must hold (soundness rule 16).
  absl::Status CheckOnLiveState(const CompiledEntry& entry) {
    const TorchState inside = TorchState::Current();
    Ref handled_inside = frame_ops::HandledException(thread_);
    start_.Apply();
    frame_ops::SetHandledException(thread_, handled_);
    const FrameView view = frame_ops::View(frame_);
    const bool holds = entry.guards->Check(view, nullptr);
    const std::string why = holds ? "" : entry.guards->Explain(view);
    inside.Apply();
    frame_ops::SetHandledException(thread_, std::move(handled_inside));
    if (holds) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("a guard fails on the state it was made from: ", why));
  }

  PyThreadState* thread_;
  frame_ops::Frame* frame_;
  const AttemptSettings& settings_;
  const TorchState start_ = TorchState::Current();
  const Ref handled_ = frame_ops::HandledException(thread_);
  AttemptResult result_;
  RunPlan plan_;
  bool used_unbacked_ = false;         // values that the graph computes, as symbols
  bool refuted_ = false;               // that they can be symbols, for some
  bool writes_new_numbers_ = false;    // that the next attempt takes for symbolic
  bool acts_before_it_looks_ = false;  // its graph would, and what it expects may be otherwise
  int earlier_end_ = -1;               // the node before which it is to end, where that is not where it was closed
  Py_ssize_t modules_before_ = 0;
  bool world_changed_ = false, tried_again_ = false;  // by the attempt (it imported modules, say): it is made again
  FxGraph fx_graph_;
  FxFacts fx_facts_;
  std::optional<GraphBreakReason> reason_;
  std::unique_ptr<Closed> closed_;
  absl::Status close_status_;
};

}  // namespace

AttemptResult CaptureFrame(PyThreadState* thread, frame_ops::Frame* frame, const AttemptSettings& settings) {
  return Driver(thread, frame, settings).Run();
}

bool IsCapturing() { return Quiet::depth > 0; }

}  // namespace framefuse
