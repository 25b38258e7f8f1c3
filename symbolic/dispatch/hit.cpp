#include "symbolic/dispatch/hit.h"

#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "common/trace.h"
#include "symbolic/dispatch/reporting.h"

namespace framefuse {

Hit RunHit(const Owner& owner, MakerId maker, const FrameView& view) {
  Site* site = CodeCache::Peek(RefOf<PyCodeObject>::Create(view.code), owner, 0);
  if (site == nullptr) return Hit();
  ResolvedSources resolved;
  std::shared_ptr<Entry> entry = FindEntry(*site, maker, view, &resolved);
  if (entry == nullptr) return Hit();
  const auto& compiled = static_cast<const CompiledEntry&>(*entry);
  if (compiled.resume) return Hit();
  Hit hit;
  std::vector<Ref> registers;
  CompiledEntry::Failure failure;
  const CompiledEntry::Outcome outcome = compiled.Run(resolved, &hit.result, &registers, &failure);
  if (outcome == CompiledEntry::Outcome::kRunNatively || outcome == CompiledEntry::Outcome::kOtherWay) return Hit();
  hit.hit = true;
  ++MutableStatistics().hits;
  return hit;
}

std::shared_ptr<Entry> FindEntry(Site& site, MakerId maker, const FrameView& view, ResolvedSources* resolved) {
  const UseClock clock(TraceEnabled());
  std::shared_ptr<Entry> found = site.Find(maker, [&](const Entry& e) {
    const auto& entry = static_cast<const CompiledEntry&>(e);
    if (ABSL_PREDICT_FALSE(entry.use != nullptr)) ++entry.use->checks;
    return entry.guards->Check(view, resolved) && !entry.expects.IsRefuted();
  });
  EntryUse* const use = found == nullptr ? nullptr : static_cast<const CompiledEntry&>(*found).use.get();
  if (ABSL_PREDICT_FALSE(use != nullptr)) {
    ++use->hits;
    use->check_seconds += clock.Seconds();
  }
  return found;
}

}  // namespace framefuse
