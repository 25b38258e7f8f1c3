// ExpectedTruths: branches on values of tensors of which one way only raises (`if bad.any(): raise`, `assert
// good.all()`). The attempt goes the other way, and its entry looks at the values behind the graph and before any
// effect: where one is otherwise, Python runs the frame, and raises. Invariant: the entry of an attempt that expects
// something writes no input before it looks. Where its graph would, and on a device, the graph defers the truth
// (symbolic/tracing/unbacked_sizes.h).
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_EXPECTED_TRUTHS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_EXPECTED_TRUTHS_H_

#include <optional>
#include <vector>

#include "symbolic/evaluator/activation.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/learned/raising_branches.h"

namespace framefuse {

class BackwardPhase;
namespace tracing {
class Tracer;
}

class ExpectedTruths {
 public:
  struct Expected {
    Ref tensor;  // the fake
    ExpectedOutput how;
  };

  ExpectedTruths(const CaptureOptions& options, const BackwardPhase& backward, tracing::Tracer& tracer)
      : options_(options), backward_(backward), tracer_(tracer) {}

  // At the instruction that `act` stands at. Nothing: the attempt cannot know.
  std::optional<bool> Expect(const Activation& act, BorrowedRef tensor);
  // Of what a call at that instruction checks to be true, to raise otherwise. False: the attempt cannot know.
  [[nodiscard]] bool ExpectCheck(const Activation& act, BorrowedRef tensor);
  // Of what torch's own code asks for in such a call, and is `truth` now.
  [[nodiscard]] bool ExpectOfTorch(const Activation& act, BorrowedRef tensor, bool truth);
  const std::vector<Expected>& all() const { return all_; }

 private:
  bool MayExpect(const Activation& act, BorrowedRef tensor) const;
  [[nodiscard]] bool Note(const Activation& act, BorrowedRef tensor, bool truth);

  const CaptureOptions& options_;
  const BackwardPhase& backward_;
  tracing::Tracer& tracer_;
  std::vector<Expected> all_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_EXPECTED_TRUTHS_H_
