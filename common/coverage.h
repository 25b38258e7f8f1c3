// Coverage: how often each kind of guard, effect, break, call rule and pass was met, and with which outcome. For tests.
// Kinds are told by family and name; each family's file declares its kinds, so that those never met are known, too.
// Invariant: off (the default), a place that counts costs one load and one branch, and none is on the way of a guard's
// check: guards that count are compiled so (guards/counting_program.h).
#ifndef FRAMEFUSE_COMMON_COVERAGE_H_
#define FRAMEFUSE_COMMON_COVERAGE_H_

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/attributes.h"

namespace framefuse {

namespace coverage_internal {
extern std::atomic<bool> counting;
}

inline bool CountsKinds() { return coverage_internal::counting.load(std::memory_order_relaxed); }
void SetCountsKinds(bool on);

// What the outcome means is the family's: a guard held, an effect was applied, a rule was taken, a pass rewrote.
ABSL_ATTRIBUTE_COLD void CountKind(std::string_view family, std::string_view kind, bool outcome);

// To be met at some time. The result has no meaning: static const bool declared = DeclareKinds(…).
bool DeclareKinds(std::string_view family, std::initializer_list<const char*> kinds);

struct KindCount {
  std::string family, kind;
  std::int64_t yes = 0, no = 0;
};
std::vector<KindCount> KindCounts();  // in order of family and kind
void ForgetKindCounts();

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_COVERAGE_H_
