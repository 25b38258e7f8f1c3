// MadeInBackward: the lists, dicts, sets and objects that a backward function of torch.autograd.Function has made while
// it is evaluated at the close of a graph. It may write them: nothing else sees them, unless it puts them into
// something that was there before, which it may not write.
// Invariant: what is noted lives until the scope ends, so that its address is not another object's.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_IN_BACKWARD_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_IN_BACKWARD_H_

#include "absl/container/flat_hash_map.h"
#include "frame_eval/ref.h"

namespace framefuse {

class MadeInBackward {
 public:
  MadeInBackward();
  ~MadeInBackward();
  MadeInBackward(const MadeInBackward&) = delete;
  MadeInBackward& operator=(const MadeInBackward&) = delete;

  // The object was made just now. Nothing where no scope is open, or the object is no container and no instance.
  static void Note(BorrowedRef object);
  static bool Has(BorrowedRef object);

 private:
  MadeInBackward* outer_;
  absl::flat_hash_map<const PyObject*, Ref> made_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_MADE_IN_BACKWARD_H_
