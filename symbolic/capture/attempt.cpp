#include "symbolic/capture/attempt.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config.h"
#include "common/logging.h"
#include "guards/leaf/tensor.h"
#include "symbolic/capture/capture_log.h"
#include "symbolic/capture/close.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/executable.h"
#include "symbolic/capture/quiet.h"

namespace framefuse {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Driver {
 public:
  Driver(PyThreadState* thread, frame_ops::Frame* frame, const AttemptSettings& settings)
      : thread_(thread), frame_(frame), settings_(settings) {}

  AttemptResult Run() {
    const double start = Now();
    Next next = Next::kAgain;
    while (next == Next::kAgain && ++result_.attempts <= kMaxAttempts) {
      closed_.reset();
      close_status_ = absl::OkStatus();
      fx_graph_ = FxGraph();
      const Found found = Once(/*scan=*/false);
      next = After(found);
    }
    if (result_.entry == nullptr && reason_ && !result_.broke_at) result_.broke_at = reason_;
    result_.capture_seconds = Now() - start - result_.backend_seconds;
    if (result_.entry != nullptr && fx_graph_.module) CompileByPython();
    return std::move(result_);
  }

 private:
  static constexpr int kMaxAttempts = 40;
  static constexpr const char* kMayRaise = "it may raise, and an input with a history was written before it";

  struct Found {
    bool done = false;
    bool mismatch = false;
    bool needs_frames = false;
    bool needs_static_sizes = false;
    bool symbolic = false;    // sizes were
    bool left_modes = false;  // it ended while a torch function mode of the program's was on
    std::optional<BreakRecord> broke;
    std::optional<CapturePosition> last_rebuildable;
  };

  enum class Next : std::uint8_t { kAgain, kEnd };

  Next After(const Found& found) {
    if (const std::optional<Next> next = ForOtherSettings(found)) return *next;
    return found.done ? Next::kEnd : ForAnotherStop(found);
  }

  // The run taught what the next one needs from its beginning on; nothing: it did not.
  std::optional<Next> ForOtherSettings(const Found& found) {
    if (std::exchange(world_changed_, false)) return FromTheBeginning();
    if (fx_graph_.refused_node >= 0) {  // it is made anew, and ends before that
      return Refuse(fx_graph_.refused_node) ? FromTheBeginning() : Next::kEnd;
    }
    if (std::exchange(acts_before_it_looks_, false)) {
      expects_ = false;
      return FromTheBeginning();
    }
    if (found.needs_frames) {
      all_frames_ = true;
      return Next::kAgain;
    }
    if (found.needs_static_sizes) {
      static_sizes_ = true;
      return FromTheBeginning();
    }
    if (found.left_modes && !settings_.fullgraph) {
      breaks_at_modes_ = true;
      return FromTheBeginning();
    }
    return std::nullopt;
  }

  Next FromTheBeginning() {
    stop_.reset();
    fallbacks_.clear();
    return Next::kAgain;
  }

  // Whether it is symbolic sizes that broke the graph is seen from an attempt without any. Nothing: it is not.
  std::optional<Next> WithoutSymbols(const Found& found) {
    if (found.symbolic && !broke_with_symbols_) {
      broke_with_symbols_ = found.broke->position;
      static_sizes_ = true;
      return FromTheBeginning();
    }
    const bool same = broke_with_symbols_ && static_sizes_ && !stop_ &&
                      found.broke->position.executed == broke_with_symbols_->executed;
    if (same) static_sizes_ = false;
    return std::nullopt;
  }

  // The graph is to end elsewhere: before a break, or earlier than the stop that could not be closed.
  Next ForAnotherStop(const Found& found) {
    if (found.broke) {
      if (const std::optional<Next> next = WithoutSymbols(found)) return *next;
      reason_ = found.broke->reason;
      // An interrupted attempt is dropped: the frame runs as Python, and the signal's handler in it.
      if (settings_.fullgraph || reason_->kind == GraphBreakKind::kInterrupted) {
        result_.broke_at = reason_;
        return Next::kEnd;
      }
      stop_ = found.broke->position;
      fallbacks_ = found.broke->outer_positions;
      return Next::kAgain;
    }
    if (found.mismatch || !IsGraphBreak(close_status_)) return Next::kEnd;
    // No recipe at the stop: each enclosing frame's call, then the last place where all was rebuildable.
    if (!fallbacks_.empty()) {
      stop_ = fallbacks_.front();
      fallbacks_.erase(fallbacks_.begin());
      return Next::kAgain;
    }
    if (scanned_) return Next::kEnd;
    scanned_ = true;
    ++result_.attempts;
    const Found scan = Once(/*scan=*/true);
    if (scan.broke) reason_ = scan.broke->reason;
    if (!scan.last_rebuildable) return Next::kEnd;
    stop_ = scan.last_rebuildable;
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
      return;
    }
    closed_ = std::make_unique<Closed>(*std::move(closed));
    Build(capture);
  }

  static absl::Status LeftModes() {
    return MakeGraphBreak(GraphBreakKind::kGlobalTorchState, "a torch function mode that stays on");
  }

  CaptureOptions Options() const {
    CaptureOptions options;
    options.fx = static_cast<bool>(settings_.fx_backend);
    options.tell_libraries = settings_.tell_libraries;
    options.breaks_at_modes = breaks_at_modes_;
    options.values = settings_.values.get();
    if (!options.fx && expects_) options.raising = settings_.raising.get();
    if (!options.fx && !static_sizes_) options.sizes = settings_.sizes.get();
    if (!stop_) options.break_at = config().break_at;
    // A forced break is wanted before every instruction there is.
    options.all_frames = all_frames_ || config().break_at >= 0;
    if (!stop_) options.refused_node = refused_node_;
    if (ends_before_error_) options.why_refused = kMayRaise;
    return options;
  }

  Found Once(bool scan) {
    Found found;
    modules_before_ = PyDict_GET_SIZE(PyImport_GetModuleDict());
    const CaptureOptions options = Options();
    Quiet quiet;
    Capture capture(thread_, frame_, options);
    Listener listener(*this, capture);
    capture.breaks().set_listener(&listener);
    if (stop_) capture.breaks().StopAt(*stop_);
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
    found.symbolic = !capture.symbols().none();
    switch (run.outcome) {
      case Outcome::kReturned:
        found.needs_static_sizes = !capture.tracer().sizes_fit();
        if (found.needs_static_sizes) break;
        if (found.left_modes) {
          found.broke = BreakAtReturn(capture, LeftModes());
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
        found.needs_frames = capture.breaks().needs_frames();
        found.needs_static_sizes = capture.breaks().needs_static_sizes() || !capture.tracer().sizes_fit();
        if (found.needs_frames || found.needs_static_sizes) break;
        AfterUnwinding(capture, &found);
        break;
      default:
        Fail(absl::InternalError("the evaluator paused or yielded in a capture"));
        found.done = true;
        break;
    }
    capture.breaks().Unwind();
    PyErr_Clear();
    return found;
  }

  void AfterReturn(Capture& capture, const RunResult& run, Found* found) {
    absl::StatusOr<Closed> closed = CloseAtReturn(capture, run.value.object, run.value.source, true);
    if (closed.ok()) {
      closed_ = std::make_unique<Closed>(*std::move(closed));
      Build(capture);
      found->done = !IsGraphBreak(close_status_);
      if (!found->done) found->broke = BreakAtReturn(capture, close_status_);
    } else if (IsGraphBreak(closed.status())) {
      found->broke = BreakAtReturn(capture, closed.status());
    } else {
      Fail(closed.status());
      found->done = true;
    }
  }

  void AfterUnwinding(Capture& capture, Found* found) {
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

  // What the frame returned cannot be rebuilt: the break is its RETURN instruction's.
  std::optional<BreakRecord> BreakAtReturn(Capture& capture, const absl::Status& status) {
    BreakRecord record;
    record.reason.kind = GraphBreakKindOf(status);
    record.reason.context = std::string(status.message());
    PyCodeObject* code = frame_ops::Code(frame_);
    record.reason.file = FileNameOf(code);
    record.reason.line = LineOf(code, capture.last_root_instruction());
    record.reason.function = NameOf(code);
    record.reason.source = SourceLine(code, record.reason.line);
    record.position = CapturePosition{capture.breaks().control().executed - 1, RefOf<PyCodeObject>::Create(code),
                                      capture.last_root_instruction()};
    return record;
  }

  void Fail(absl::Status status) {
    if (result_.error.ok()) result_.error = std::move(status);
  }

  // Guards, executable: the entry is whole. Runs inside the attempt, with its fakes alive.
  void Build(Capture& capture) {
    tracing::Tracer::Suspended suspended;
    HookScope hook(HookMode::kOff);
    if (!capture.writes().noted_classes().empty()) return LeaveSlotNames(capture);
    Closed& closed = *closed_;
    CompiledEntry& entry = *closed.entry;
    acts_before_it_looks_ = !entry.expected.empty() && ActsOutside(closed.graph);
    if (acts_before_it_looks_) return;
    entry.raising = settings_.raising;
    result_.nodes = NodeCountOf(closed.graph);
    const bool for_python = static_cast<bool>(settings_.fx_backend);
    // Torch's state is set by the entry itself.
    const bool no_tensor_work = result_.nodes == 0 && (for_python || capture.fx().nodes().empty());
    const bool sets_gradients = !for_python && !closed.graph.gradient_effects.empty();
    const bool asks_for_grad =
        !for_python && std::any_of(closed.graph.inputs.begin(), closed.graph.inputs.end(),
                                   [](const tracing::TracedInput& in) { return in.asked_for_grad; });
    const bool has_work = !no_tensor_work || !closed.fx_outputs.empty() || sets_gradients || asks_for_grad;
    if (no_tensor_work && !entry.resume) {
      result_.nothing_to_do = true;
    }
    if (for_python && has_work && !BuildForPython(capture, closed)) return;
    AddInputs(capture, closed);
    entry.sizes = capture.symbols().Close(capture.objects().tensor_inputs());
    capture.objects().GuardDistinctObjects();
    std::vector<SourceId> resolve = entry.inputs;
    resolve.insert(resolve.end(), capture.reads().leaves().begin(), capture.reads().leaves().end());
    if (entry.sizes != nullptr) {
      for (const EntrySizes::Symbol& s : entry.sizes->symbols) resolve.push_back(s.source);
    }
    for (const RecipeStep& step : entry.recipes.steps()) {
      if (step.op == RecipeOp::kSource) resolve.push_back(step.index);
      // What may die with the frame that made it is looked for before the entry runs.
      if (step.object.weak()) resolve.push_back(capture.reads().ConstantSource(step.object.get()));
    }
    absl::StatusOr<std::unique_ptr<GuardProgram>> guards =
        capture.reads().guards().Compile(resolve, capture.frames().SlotNames());
    if (!guards.ok()) return Fail(guards.status());
    entry.guards = *std::move(guards);
    entry.operations = OperationsOf(capture.fx());
    LogCapture(capture, closed, frame_);
    if (settings_.keeps_graph_text || LogEnabled(LogArtifact::kGraph)) entry.graph_text = GraphText(closed.graph);
    if (has_work && !for_python) {
      const double start = Now();
      absl::StatusOr<std::shared_ptr<TensorWork>> executable = CompilePlan(closed, settings_.backend, settings_.mode);
      result_.backend_seconds += Now() - start;
      if (absl::IsUnimplemented(executable.status())) {
        close_status_ = MakeGraphBreak(GraphBreakKind::kTensorMutation, executable.status().message().data());
        return;
      }
      if (!executable.ok()) return Fail(executable.status());
      entry.executable = *std::move(executable);
    }
    if (absl::Status s = CheckOnLiveState(entry); !s.ok()) {
      // What torch's code imported by itself has changed what was read before.
      world_changed_ = PyDict_GET_SIZE(PyImport_GetModuleDict()) > modules_before_;
      return world_changed_ ? void() : Fail(s);
    }
    if (entry.resume) result_.broke_at = entry.resume->reason;
    result_.entry = std::move(closed.entry);
  }

  // The entry is about to run, and Python would leave them: guards that were made before do not hold afterwards.
  void LeaveSlotNames(Capture& capture) {
    const Ref copyreg = Ref::Steal(PyImport_ImportModule("copyreg"));
    for (const Ref& cls : capture.writes().noted_classes()) {
      const Ref names = copyreg ? Ref::Steal(PyObject_CallMethod(copyreg, "_slotnames", "O", cls.get())) : Ref();
      PyErr_Clear();
      PyObject* own = frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()));
      if (!names || PyDict_GetItemString(own, "__slotnames__") == nullptr) {
        return Fail(absl::InternalError("a class does not keep the names of its slots"));
      }
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
    if (fx_graph_.refused_node >= 0) {
      FF_LOG(kGraphBreaks) << "an FX graph is made anew without its end: " << fx_graph_.why_refused;
      return false;
    }
    fx_facts_ = FactsOf(fx_graph_, closed, capture);
    const int raises = NodeAfterFollowedWrite(*closed.graph.graph, fx_facts_.writes);
    if (raises < 0) return true;
    if (!settings_.fullgraph) {
      fx_graph_ = FxGraph();
      fx_graph_.refused_node = raises;
      ends_before_error_ = true;
      return false;
    }
    return true;
  }

  // The graph ends before `node`, or before the one before it where that was tried. False: there is none.
  bool Refuse(int node) {
    refused_node_ = refused_node_ < 0 ? node : std::min(node, refused_node_ - 1);
    return refused_node_ >= 0;
  }

  void CompileByPython() {
    const double start = Now();
    result_.entry->executable = CompileFx(fx_graph_, std::move(fx_facts_), settings_.fx_backend);
    result_.backend_seconds += Now() - start;
    if (result_.entry->executable != nullptr) return;
    result_.entry.reset();
    if (PyErr_Occurred() == nullptr) return;  // it runs as Python
    result_.backend_error = frame_ops::FetchRaised(thread_);
    Fail(absl::AbortedError("the FX backend raised"));
  }

  void AddInputs(Capture& capture, Closed& closed) {
    const std::vector<TensorInput>& tensors = capture.objects().tensor_inputs();
    std::vector<SourceId> sources;
    std::vector<BorrowedRef> live;
    bool mutates = false;
    for (const tracing::TracedInput& in : closed.graph.inputs) {
      if (in.input_index >= 0) {
        const TensorInput& t = tensors[static_cast<std::size_t>(in.input_index)];
        closed.entry->inputs.push_back(t.source);
        sources.push_back(t.source);
        live.emplace_back(t.real.get());
        if (in.storage_read) capture.reads().guards().AddStorage(t.source, t.real);
        if (in.storage_offset_read) capture.reads().guards().AddStorageOffset(t.source, t.real);
        continue;
      }
      const TensorInput& of = tensors[static_cast<std::size_t>(in.gradient_of)];
      const SourceId gradient = capture.reads().sources().Intern(SourceKind::kTensorGrad, of.source, 0, nullptr);
      Ref grad = ReadGrad(of.real);
      capture.reads().guards().AddTensor(gradient, grad, UserLocation());
      capture.reads().guards().AddLeaf(gradient, grad);
      closed.entry->inputs.push_back(gradient);
    }
    for (int index : closed.graph.gradients_read) {
      const TensorInput& of = tensors[static_cast<std::size_t>(index)];
      Ref grad = ReadGrad(of.real);
      if (grad.get() != Py_None) continue;
      capture.reads().guards().Add(capture.reads().sources().Intern(SourceKind::kTensorGrad, of.source, 0, nullptr),
                                   GuardKind::kIdentity, Py_None, UserLocation());
    }
    if (closed.graph.leaves_read) {
      for (const TensorInput& t : tensors) capture.reads().guards().AddLeaf(t.source, t.real);
    }
    if (settings_.fx_backend) closed.entry->inputs = fx_graph_.inputs;
    mutates = WritesInputs(closed.graph);
    if (mutates && sources.size() > 1) capture.reads().guards().AddOverlap(sources, live);
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
  std::optional<CapturePosition> stop_;
  std::vector<CapturePosition> fallbacks_;  // where to stop if that cannot be closed
  bool scanned_ = false;                    // for the last instruction where all could be rebuilt
  bool all_frames_ = false;
  bool breaks_at_modes_ = false;
  std::optional<CapturePosition> broke_with_symbols_;
  bool static_sizes_ = false;  // symbolic ones met what takes none
  int refused_node_ = -1;
  bool ends_before_error_ = false;
  bool expects_ = true;                // that branches do not go the way that raises
  bool acts_before_it_looks_ = false;  // its graph would, and what it expects may be otherwise
  Py_ssize_t modules_before_ = 0;
  bool world_changed_ = false;  // by the attempt (it imported modules, say): it is made again
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
