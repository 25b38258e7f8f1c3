// Expectations: what an entry takes for granted and no guard can check before it runs: at branches of which one way
// only raises, of sizes that its graph computes, of warnings that nobody hears. Invariant: what was otherwise once is
// refuted in the compiled object's tables, and an entry that expects it is dead.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_EXPECTATIONS_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_EXPECTATIONS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "symbolic/entry/deferred_warnings.h"
#include "symbolic/learned/raising_branches.h"
#include "symbolic/learned/unbacked_places.h"

namespace framefuse {

struct Expectations {
  // An error was raised, and handled, where one was expected not to be, and the like.
  bool IsRefuted() const;
  std::string Refutation() const;  // empty: it is not refuted

  std::vector<ExpectedOutput> outputs;
  std::vector<DeferredFact> deferred;
  std::vector<DeferredWarning> warnings;  // said by the entry's effects
  std::size_t read = 0;                   // how many sources the program reads; with `warnings`
  std::shared_ptr<const RaisingBranches> raising;
  std::shared_ptr<const UnbackedPlaces> unbacked;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_EXPECTATIONS_H_
