// The hot path of a hit: a call that an entry answers takes this way, and nothing else runs.
//   CompiledTarget::Call (api.cpp) binds the arguments to slots, without a frame   frame_eval/bind_simple.cpp
//   RunHit finds the entries of the code                                            frame_eval/code_cache.cpp
//   FindEntry checks the guards, those of the entry that hit last first             guards/program.cpp
//   CompiledEntry::Run: plan, new objects, writes                                   compiled_entry.cpp
// What is added here costs every call: benchmarks/call_cost.py.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_HIT_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_HIT_H_

#include <memory>

#include "frame_eval/code_cache.h"
#include "guards/guard.h"
#include "symbolic/entry/compiled_entry.h"

namespace framefuse {

struct Hit {
  Ref result;  // null: an error is set
  bool hit = false;
};

// For a call bound to slots: an entry that returns without a resume point, run at once.
Hit RunHit(const Owner& owner, MakerId maker, const FrameView& view);
// Null: the guards of none hold. Also where a frame goes on after a break.
std::shared_ptr<Entry> FindEntry(Site& site, MakerId maker, const FrameView& view, ResolvedSources* resolved);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_HIT_H_
