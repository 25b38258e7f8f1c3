// EntryUse: how often an entry was asked, ran and broke, and how long that took, for the trace (docs/trace.md).
// Invariant: only entries made while the trace is on have one; others pay a test of a pointer. Needs the GIL.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_ENTRY_USE_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_ENTRY_USE_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "common/compile_id.h"

namespace framefuse {

struct EntryUse {
  CompileId id;
  std::int64_t checks = 0, hits = 0, runs = 0, breaks = 0;
  double check_seconds = 0;    // until it was found, others' guards included
  double run_seconds = 0;      // graph, new objects, writes
  double between_seconds = 0;  // after its break, until compiled code goes on; without graphs that ran meanwhile
  bool is_new = false;         // since it was written last
};

std::shared_ptr<EntryUse> CountUse(CompileId id);
// Those that are new, as events of the trace.
void WriteUses();

class UseClock {
 public:
  explicit UseClock(bool on) : on_(on) {
    if (on_) begun_ = std::chrono::steady_clock::now();
  }
  double Seconds() const {
    return on_ ? std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count() : 0;
  }

 private:
  bool on_;
  std::chrono::steady_clock::time_point begun_;
};

// One run of an entry.
class RunScope {
 public:
  explicit RunScope(EntryUse* use) : use_(use), clock_(use != nullptr) {}
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  EntryUse* use_;
  UseClock clock_;
};

// From an entry's break to where compiled code of its frame goes on.
class BreakClock {
 public:
  explicit BreakClock(std::shared_ptr<EntryUse> use);
  ~BreakClock();
  BreakClock(const BreakClock&) = delete;
  BreakClock& operator=(const BreakClock&) = delete;

 private:
  std::shared_ptr<EntryUse> use_;
  UseClock clock_;
  double ran_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_ENTRY_USE_H_
