// LazyParameters: calls in which lazy modules (torch.nn.LazyLinear) get their parameters. Such a call runs as Python:
// what is captured of it ends before the module's call and is of no use to the next, which has other classes and hooks.
// Invariant: of one code no more than kMost calls are such, so that a module that stays lazy is captured as any other.
#ifndef FRAMEFUSE_SYMBOLIC_DISPATCH_LAZY_PARAMETERS_H_
#define FRAMEFUSE_SYMBOLIC_DISPATCH_LAZY_PARAMETERS_H_

#include <Python.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "symbolic/attempt/attempt.h"

namespace framefuse {

class LazyParameters {
 public:
  bool AreMade(const AttemptResult& attempt, const PyCodeObject* code) {
    const bool met = attempt.broke_at && attempt.broke_at->kind == GraphBreakKind::kUnsupportedTensor &&
                     absl::StrContains(attempt.broke_at->context, "subclass Uninitialized");
    return met && calls_[code]++ < kMost;
  }

 private:
  static constexpr int kMost = 3;
  absl::flat_hash_map<const PyCodeObject*, int> calls_;  // by the code's address, which is compared and never read
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_DISPATCH_LAZY_PARAMETERS_H_
