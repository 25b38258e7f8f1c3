// RunPlan: how the next run of an attempt is to be made: where it stops, and what the runs before it found that it has
// to do without. Invariant: what was learnt is not forgotten, but the stop, which a run from the beginning finds anew;
// so an attempt comes to an end.
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_RUN_PLAN_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_RUN_PLAN_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/attempt/attempt.h"
#include "symbolic/attempt/attempt_found.h"
#include "symbolic/journals/capture_position.h"

namespace framefuse {

class RunPlan {
 public:
  explicit RunPlan(const AttemptSettings& settings) : settings_(settings) {}

  CaptureOptions Options() const;
  const std::optional<CapturePosition>& stop() const { return stop_; }
  bool hears_due_warnings() const { return hears_due_warnings_; }
  bool takes_unbacked() const { return !no_unbacked_; }

  // ---- where it stops
  void BeginAnew();  // without a stop
  void StopAt(const BreakRecord& broke);
  void StopAt(const CapturePosition& position) { stop_ = position; }
  // No recipe at the stop: at the call of the next enclosing frame. False: there is none.
  bool StopFurtherOut();
  // For the last instruction where all could be rebuilt. False: a run looked for it already.
  bool Scan();

  // ---- what it does without; false: so did a run before
  void TakeStaticSizes();
  void TakeNoUnbacked() { no_unbacked_ = true; }
  // There was no entry: perhaps there is one that breaks where a value is read.
  void StartOverWithoutUnbacked();
  // Whether it is symbolic sizes that broke the graph is seen from a run without any.
  bool TryWithoutSymbols(const AttemptFound& found);
  // The graph ends before `node`, or before the one before it where that was tried. False: there is none.
  bool EndBefore(int node);
  void EndBeforeError();  // is why it ends there
  void SayWhyItEnds(std::string why) { why_refused_ = std::move(why); }
  void ExpectNoBranch() { looks_at_end_ = false; }
  void EvaluateAllFrames() { all_frames_ = true; }
  void LeaveToCheckpoint(std::string why) { why_left_ = std::move(why), left_anew_ = true; }
  bool IsLeftAnew() { return std::exchange(left_anew_, false); }  // since it was asked
  void BreakAtModes() { breaks_at_modes_ = true; }
  bool HearDueWarnings();
  bool Inline(const RefOf<PyCodeObject>& code);

 private:
  const AttemptSettings& settings_;
  std::optional<CapturePosition> stop_;
  std::vector<CapturePosition> fallbacks_;    // where to stop if that cannot be closed
  std::vector<RefOf<PyCodeObject>> inlined_;  // torch's functions that looked at a value as one call
  bool scanned_ = false;
  bool all_frames_ = false;
  bool breaks_at_modes_ = false;
  std::optional<CapturePosition> broke_with_symbols_;
  bool fixes_arrays_ = false;      // and nothing else
  bool static_sizes_ = false;      // without symbolic ones, as …
  bool takes_no_symbols_ = false;  // … something that they met wants it; else to see whether it breaks less
  bool no_unbacked_ = false;       // so did those that the graph computes
  bool hears_due_warnings_ = false;
  int refused_node_ = -1;
  bool left_anew_ = false;
  std::string why_left_;      // as CaptureOptions has it
  std::string why_refused_;   // empty: as CaptureOptions has it
  bool looks_at_end_ = true;  // whether branches go the way that raises
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_RUN_PLAN_H_
