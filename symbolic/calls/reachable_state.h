// ReachableState: what code that is given some objects could change of what the attempt itself made: the contents of
// containers, cells and instances, and what autograd holds of tensors, as they are at one moment.
// Invariant: IsUnchanged only if no such object was changed since. Objects that existed before the attempt are not
// looked into, for their writes are journalled, and neither are types, modules and code. A value.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_REACHABLE_STATE_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_REACHABLE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"

namespace framefuse {

class MadeClasses;
class TrackedTable;

class ReachableState {
 public:
  ReachableState(const std::vector<Ref>& roots, const TrackedTable& tracked, const MadeClasses& classes);

  // The type of an object whose state cannot be compared (an iterator, a generator …); empty: none.
  const std::string& unknown() const { return unknown_; }
  bool IsUnchanged() const;
  std::vector<Ref> Tensors() const;

 private:
  struct Facts {
    Ref object;
    std::vector<Ref> parts;
    std::vector<std::uintptr_t> of_tensor;
  };

  std::vector<Facts> facts_;
  std::string unknown_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_REACHABLE_STATE_H_
