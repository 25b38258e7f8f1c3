// What one run of an attempt found out (attempt.cpp).
#ifndef FRAMEFUSE_SYMBOLIC_ATTEMPT_ATTEMPT_FOUND_H_
#define FRAMEFUSE_SYMBOLIC_ATTEMPT_ATTEMPT_FOUND_H_

#include <optional>

#include "symbolic/journals/capture_position.h"

namespace framefuse {

struct AttemptFound {
  bool done = false;
  bool mismatch = false;
  bool needs_frames = false;
  bool needs_static_sizes = false;
  bool warned = false;       // torch warned, perhaps of what it has said already
  bool symbolic = false;     // sizes of inputs were, or numbers
  bool only_arrays = false;  // not they, but what is in arrays
  bool left_modes = false;   // it ended while a torch function mode of the program's was on
  RefOf<PyCodeObject> leaf;  // torch's function in which a value was looked at
  std::optional<BreakRecord> broke;
  bool break_is_error = false;
  std::optional<CapturePosition> last_rebuildable;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ATTEMPT_ATTEMPT_FOUND_H_
