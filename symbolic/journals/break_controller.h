// BreakController: how an attempt ends before its frame returns: a graph break, the place where a re-run is to stop, or
// the need for another attempt. It names the instructions at which the evaluator asks, and unwinds the frames.
// Invariant: a break sets Control::unwinding and is never undone (soundness rule 12); only the first one counts.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_BREAK_CONTROLLER_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_BREAK_CONTROLLER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/base/attributes.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/stop_schedule.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {

class MadeClasses;
class FrameStack;
class FunctionModes;
namespace tracing {
class Tracer;
}

class BreakController {
 public:
  // Called while all activations are alive.
  class StopListener {
   public:
    virtual ~StopListener() = default;
    virtual void AtStop(Activation& innermost) = 0;
    virtual bool IsRebuildable(Activation& innermost) = 0;
  };

  BreakController(Control& control, FrameStack& frames, const tracing::Tracer& tracer, const MadeClasses& classes,
                  const FunctionModes& modes)
      : control_(control), schedule_(control), frames_(frames), tracer_(tracer), classes_(classes), modes_(modes) {}

  // ---- how the attempt is to end
  void BreakAt(std::int64_t executed);  // testing; negative: nowhere
  void StopAt(const CapturePosition& position);
  void set_listener(StopListener* listener) { listener_ = listener; }
  void TrackRebuildable();  // ask the listener before each instruction of the root
  StopAction OnStop(Activation& act);
  void EndRun();

  // ---- breaks
  bool unwinding() const { return control_.unwinding; }
  void Unwind() { control_.Unwind(); }  // what dies from now on runs no captured code
  const Control& control() const { return control_; }
  ABSL_ATTRIBUTE_COLD Value Break(GraphBreakKind kind, std::string_view context);  // always returns a null Value
  [[nodiscard]] bool BreakFalse(GraphBreakKind kind, std::string_view context) {
    return static_cast<bool>(Break(kind, context));
  }
  Truth BreakTruth(GraphBreakKind kind, std::string_view context) {
    return BreakFalse(kind, context) ? Truth::kTrue : Truth::kError;
  }
  // `why_not`: why a call cannot stand in a graph for an FX backend; empty: it can. False: broke.
  [[nodiscard]] bool Journalled(std::string_view why_not) {
    return why_not.empty() || BreakFalse(GraphBreakKind::kAutograd, why_not);
  }
  // An error that torch raised and that nothing in the frame handles, though a real tensor may not get it.
  void NoteUnconfirmed(std::string_view context);
  // Frames of a module's call are left out: what could see that, a break included, has the attempt made anew.
  void BeginWithoutFrames() { ++calls_without_frames_; }
  void EndWithoutFrames() { --calls_without_frames_; }
  Value NeedFrames();  // null
  // What takes no symbolic sizes: the attempt is made anew without any.
  Value NeedStaticSizes();  // null
  // Code that is evaluated after the attempt, at the close: it has no stop, and a break in it ends it alone.
  Control BeginApart();
  std::optional<GraphBreakReason> EndApart(const Control& kept);
  // In place of the current error. It is no Exception, and no handler of ours or of Python's matches it; C code that
  // drops it all the same changes nothing, for the evaluator asks Control::unwinding.
  static void SetUnwindError();
  // One of torch's functions that run as one call: it looked at a value. Inlined, it may go on.
  void NoteLeaf(PyCodeObject* code) { leaf_ = RefOf<PyCodeObject>::Create(code); }

  // ---- what was found
  const RefOf<PyCodeObject>& leaf() const { return leaf_; }
  const std::optional<BreakRecord>& record() const { return record_; }
  const std::optional<GraphBreakReason>& unconfirmed_error() const { return unconfirmed_error_; }
  const std::optional<CapturePosition>& last_rebuildable() const { return last_rebuildable_; }
  bool needs_frames() const { return needs_frames_; }
  bool needs_static_sizes() const { return needs_static_sizes_; }
  // The graph would end while a torch function mode is on that the program pushed.
  bool left_modes() const;
  bool stopped() const { return stopped_; }
  bool stop_mismatch() const { return stop_mismatch_; }

 private:
  StopAction StopHere(Activation& act);
  [[nodiscard]] bool Checkpoint(Activation& act);  // false: broke
  GraphBreakReason ReasonHere(GraphBreakKind kind, std::string_view context) const;
  bool IsLibrary(frame_ops::Frame* frame) const;
  Value Unwound();  // null, with the error that tells callers

  Control& control_;
  StopSchedule schedule_;
  FrameStack& frames_;
  const tracing::Tracer& tracer_;
  const MadeClasses& classes_;
  const FunctionModes& modes_;
  StopListener* listener_ = nullptr;
  std::optional<CapturePosition> stop_;
  std::optional<BreakRecord> record_;
  std::optional<GraphBreakReason> unconfirmed_error_;
  RefOf<PyCodeObject> leaf_;
  std::optional<CapturePosition> last_rebuildable_;
  int calls_without_frames_ = 0;  // under way
  bool track_rebuildable_ = false, needs_frames_ = false, stopped_ = false, stop_mismatch_ = false;
  bool needs_static_sizes_ = false;
  bool left_modes_ = false;  // by a break, or at the end
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_BREAK_CONTROLLER_H_
