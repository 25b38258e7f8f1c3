// FrameRunner: runs Python frames of a compiled call: finds the entry, or has one made (entry_maker.h), of the place
// where the frame stands, runs it, and after a break goes on with the same frame: one instruction natively, then the
// next entry. Frames that were inlined at the break are rebuilt as real frames and run innermost first. Invariant: a
// frame is run to its end exactly once, by entries, by the evaluator or by CPython. One per owner; it is the hook's
// handler in run mode. Needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_FRAME_RUNNER_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_FRAME_RUNNER_H_

#include <functional>
#include <memory>
#include <string>

#include "frame_eval/code_cache.h"
#include "frame_eval/hook.h"
#include "symbolic/dispatch/checkpoint_script.h"
#include "symbolic/dispatch/entry_maker.h"
#include "symbolic/dispatch/hit.h"

namespace framefuse {

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
      : owner_(std::move(owner)), maker_(std::move(settings)) {}

  PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) override;
  // The frame of the compiled function itself: never skipped for where its code stands.
  void ExpectRoot(PyCodeObject* code, BorrowedRef callable) {
    root_code_ = code;
    maker_.SetCompiled(code, callable);
  }
  void set_observer(RunObserver* observer) { maker_.set_observer(observer); }

  // For a call bound to slots: an entry that returns without a resume point, run at once.
  Hit TryWithoutFrame(const FrameView& view) const;

 private:
  enum class Step : std::uint8_t { kGoOn, kFinished };
  // The frame stands before an instruction; runs it to its end.
  // `after` is the break that it goes on after, if any.
  PyObject* GoOn(PyThreadState* thread, frame_ops::Frame* frame, bool step_first,
                 const GraphBreakReason* after = nullptr);
  void SayThrownInto(PyThreadState* thread, frame_ops::Frame* frame);
  PyObject* GoOnIntercepted(PyThreadState* thread, frame_ops::Frame* frame, bool root);
  struct Progress {
    int idle_pieces = 0;  // in a row, without tensor work
    const GraphBreakReason* after = nullptr;
    std::shared_ptr<Entry> broken;  // whose break that is
    std::unique_ptr<BreakClock> between;
    void Leave(std::shared_ptr<Entry> entry);
  };
  Step RunEntryHere(PyThreadState* thread, frame_ops::Frame* frame, PyObject** result, Progress* progress);
  Step RunAgain(PyThreadState* thread, frame_ops::Frame* frame, CheckpointScript& script,
                const std::shared_ptr<Site>& site, PyObject** result, Progress* progress);
  Step Run(PyThreadState* thread, frame_ops::Frame* frame, std::shared_ptr<Entry> found,
           const ResolvedSources& resolved, PyObject** result, Progress* progress);
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
  EntryMaker maker_;
  PyCodeObject* root_code_ = nullptr;  // until its frame starts
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_FRAME_RUNNER_H_
