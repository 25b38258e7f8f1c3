// FirstCalls: the sizes and integers that a compiled object's code was first called with, where the stance has first
// calls run as Python (eager_then_compile). What differs in the next one is symbolic from the first capture on.
#ifndef FRAMEFUSE_SYMBOLIC_LEARNED_FIRST_CALLS_H_
#define FRAMEFUSE_SYMBOLIC_LEARNED_FIRST_CALLS_H_

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "frame_eval/frame_view.h"
#include "symbolic/learned/dynamic_sizes.h"

namespace framefuse {

class FirstCalls {
 public:
  // By source: a tensor's sizes, or one number for an integer and for how many items there are.
  struct Values {
    bool of_tensor = false;
    std::vector<std::int64_t> numbers;
  };
  using Arguments = absl::flat_hash_map<std::string, Values>;

  // Of a frame that starts. False: there was one, and what differs from it is noted, once.
  [[nodiscard]] bool IsFirst(const FrameView& frame, DynamicSizes& sizes);

 private:
  struct Call {
    Arguments arguments;
    bool compared = false;
  };
  // By the code's address, which is compared and never read.
  absl::flat_hash_map<const PyCodeObject*, Call> calls_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_LEARNED_FIRST_CALLS_H_
