// FrameRunner: runs Python frames of a compiled call: finds or makes the entry of the place where the frame
// stands, runs it, and after a break goes on with the same frame: one instruction natively, then the next entry.
// Frames that were inlined at the break are rebuilt as real frames and run innermost first.
// Invariant: a frame is run to its end exactly once, by entries, by the evaluator or by CPython. One per owner;
// it is the hook's handler in run mode. Needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_CAPTURE_FRAME_RUNNER_H_
#define FRAMEFUSE_SYMBOLIC_CAPTURE_FRAME_RUNNER_H_

#include <functional>
#include <memory>
#include <string>

#include "frame_eval/code_cache.h"
#include "frame_eval/hook.h"
#include "symbolic/capture/attempt.h"

namespace framefuse {

// What happened, for explain() and statistics.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void OnCaptured(const CompiledEntry& entry, const AttemptResult& result) = 0;
  virtual void OnBreak(const GraphBreakReason& reason) = 0;
};

// While alive, the next frame of this callable's code on this thread, and what it breaks into, runs as Python; what it
// calls is captured.
class SkipNextFrame {
 public:
  explicit SkipNextFrame(BorrowedRef callable);
  ~SkipNextFrame();
  SkipNextFrame(const SkipNextFrame&) = delete;
  SkipNextFrame& operator=(const SkipNextFrame&) = delete;

 private:
  PyCodeObject* outer_;
};

class FrameRunner final : public FrameHandler {
 public:
  FrameRunner(std::shared_ptr<Owner> owner, AttemptSettings settings)
      : owner_(std::move(owner)), settings_(std::move(settings)) {}

  PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) override;
  // The frame of the compiled function itself: never skipped for where its code stands.
  void ExpectRoot(PyCodeObject* code) { root_code_ = compiled_code_ = code; }
  // Runs an entry of a call that has no frame yet. kResume needs a frame and does not happen here.
  const std::shared_ptr<Owner>& owner() const { return owner_; }
  const AttemptSettings& settings() const { return settings_; }
  void set_observer(RunObserver* observer) {
    observer_ = observer;
    settings_.keeps_graph_text = true;
  }

  struct Fast {
    Ref result;
    bool hit = false;
  };
  // For a call bound to slots: an entry that returns without a resume point, run at once.
  Fast TryWithoutFrame(const FrameView& view);

 private:
  enum class Step : std::uint8_t { kGoOn, kFinished, kNative };
  // What becomes of a frame that got no entry: an error is set (fullgraph, or a bug that is to be seen), Python runs it
  // and what it calls is captured, or Python runs it all.
  enum class Without : std::uint8_t { kRaises, kRunsAsPython, kRunsWhole };
  struct Made {
    std::shared_ptr<CompiledEntry> entry;
    Without without = Without::kRunsAsPython;           // the entry is null
    std::optional<GraphBreakReason> unconfirmed_error;  // what to report if Python runs it without an exception
  };
  // The frame stands before an instruction; runs it to its end.
  PyObject* GoOn(PyThreadState* thread, frame_ops::Frame* frame, bool step_first);
  // Counts pieces in a row without tensor work.
  Step RunEntryHere(PyThreadState* thread, frame_ops::Frame* frame, PyObject** result, int* idle_pieces);
  std::shared_ptr<Entry> FindEntry(Site& site, const FrameView& view, ResolvedSources* resolved);
  Made Make(PyThreadState* thread, frame_ops::Frame* frame, const std::shared_ptr<Site>& site);
  bool IsAtLimit(Site& site, const FrameView& view) const;
  AttemptResult Attempt(PyThreadState* thread, frame_ops::Frame* frame) const;
  // Logs and counts a break; false: it is an error under fullgraph.
  bool Report(const GraphBreakReason& reason);
  PyObject* RunWithout(PyThreadState* thread, frame_ops::Frame* frame, const Made& made);
  void LogRecompile(Site& site, const FrameView& view);
  // The frames of a break in inlined calls, outermost first, while they run.
  struct Chain {
    const ResumePoint& resume;
    std::vector<frame_ops::Frame*> frames;
    std::vector<Ref> pending;  // objects under construction, by frame
  };
  Step ResumeChain(PyThreadState* thread, frame_ops::Frame* root, const ResumePoint& resume, std::vector<Ref> registers,
                   PyObject** result);
  void DropInner(PyThreadState* thread, Chain& chain, std::size_t index);
  PyObject* RunInner(PyThreadState* thread, Chain& chain, std::size_t index);
  Step CallInner(PyThreadState* thread, Chain& chain, std::size_t index, PyObject** result);
  PyObject* Unwind(PyThreadState* thread, frame_ops::Frame* frame);
  Step StepNatively(PyThreadState* thread, frame_ops::Frame* frame, StartAt start, PyObject** result);

  std::shared_ptr<Owner> owner_;
  AttemptSettings settings_;
  PyCodeObject* root_code_ = nullptr;      // until its frame starts
  PyCodeObject* compiled_code_ = nullptr;  // only compared
  RunObserver* observer_ = nullptr;
  bool recorded_stream_reported_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CAPTURE_FRAME_RUNNER_H_
