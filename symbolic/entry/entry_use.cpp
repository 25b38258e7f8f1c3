#include "symbolic/entry/entry_use.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/trace.h"

namespace framefuse {
namespace {

std::vector<std::shared_ptr<EntryUse>>& Uses() {
  static auto* const uses = new std::vector<std::shared_ptr<EntryUse>>;
  return *uses;
}

// Of all entries, in this thread.
thread_local double run_seconds = 0;

}  // namespace

std::shared_ptr<EntryUse> CountUse(CompileId id) {
  auto use = std::make_shared<EntryUse>();
  use->id = id;
  Uses().push_back(use);
  return use;
}

void WriteUses() {
  for (const std::shared_ptr<EntryUse>& use : Uses()) {
    if (!std::exchange(use->is_new, false)) continue;
    const CompileIdScope id(use->id);
    JsonObject json;
    json.Int("checks", use->checks).Int("hits", use->hits).Int("runs", use->runs).Int("breaks", use->breaks);
    json.Number("check_seconds", use->check_seconds).Number("run_seconds", use->run_seconds);
    WriteTrace("use", json.Number("between_seconds", use->between_seconds));
  }
}

RunScope::~RunScope() {
  if (use_ == nullptr) return;
  const double seconds = clock_.Seconds();
  ++use_->runs;
  use_->run_seconds += seconds;
  use_->is_new = true;
  run_seconds += seconds;
}

BreakClock::BreakClock(std::shared_ptr<EntryUse> use)
    : use_(std::move(use)), clock_(use_ != nullptr), ran_(run_seconds) {}

BreakClock::~BreakClock() {
  if (use_ == nullptr) return;
  ++use_->breaks;
  use_->between_seconds += std::max(0.0, clock_.Seconds() - (run_seconds - ran_));
  use_->is_new = true;
}

}  // namespace framefuse
