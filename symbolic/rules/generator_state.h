// GeneratorState: the state of a generator of Python's or numpy's, which can be put back (random_methods.h has the
// kinds). Where the memory of the state is known it is a copy of that, which is some hundred times cheaper.
// Invariant: a generator whose state was put back draws what it would have drawn.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_GENERATOR_STATE_H_
#define FRAMEFUSE_SYMBOLIC_RULES_GENERATOR_STATE_H_

#include <memory>

#include "frame_eval/ref.h"

namespace framefuse {

class GeneratorState {
 public:
  bool Take(BorrowedRef generator);  // false: an error is set
  bool PutBack() const;              // the same
  BorrowedRef generator() const { return generator_; }

 private:
  bool TakeWords();
  bool TakeNumpyWords();

  Ref generator_;
  Ref whole_;  // what methods gave; null: it is the memory's copy
  Ref gauss_;  // what random.Random keeps for gauss()
  std::unique_ptr<char[]> words_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_GENERATOR_STATE_H_
