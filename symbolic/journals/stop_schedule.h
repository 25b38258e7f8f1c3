// StopSchedule: before which instruction the evaluator asks how to go on: the one that is wanted, the next checkpoint,
// and each one while the log `trace` is on. Invariant: it alone sets Control::stop_at, but for a break
// (Control::Unwind) and code that is evaluated apart (BreakController::BeginApart).
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_STOP_SCHEDULE_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_STOP_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "common/logging.h"
#include "symbolic/evaluator/activation.h"

namespace framefuse {

class StopSchedule {
 public:
  explicit StopSchedule(Control& control) : control_(control) {}

  bool traces() const { return traces_; }
  void SetCheckpoint(std::uint64_t executed) { next_checkpoint_ = executed; }
  void Want(std::uint64_t executed) {
    wanted_ = executed;
    control_.stop_at = traces_ ? control_.executed : std::min(wanted_, next_checkpoint_);
  }
  void WantNext() { Want(control_.executed + 1); }
  bool IsWanted() const { return control_.executed == wanted_; }
  void AskAtNext() { control_.stop_at = control_.executed + 1; }
  // False: none is reached. True: the next one comes `later` instructions later.
  bool PassCheckpoint(std::uint64_t later) {
    if (control_.executed < next_checkpoint_) return false;
    next_checkpoint_ = control_.executed + later;
    Want(wanted_);
    return true;
  }

 private:
  Control& control_;
  std::uint64_t wanted_ = 0;
  std::uint64_t next_checkpoint_ = 0;
  const bool traces_ = LogEnabled(LogArtifact::kTrace);
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_STOP_SCHEDULE_H_
