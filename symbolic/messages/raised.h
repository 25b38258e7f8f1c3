// Raised: a Python exception as messages show it: its type, its text and the line that raised it.
// Invariant: taking one runs no code of the program's, and keeps the type alive but nothing that a traceback holds.
#ifndef FRAMEFUSE_SYMBOLIC_MESSAGES_RAISED_H_
#define FRAMEFUSE_SYMBOLIC_MESSAGES_RAISED_H_

#include <string>

#include "frame_eval/ref.h"

namespace framefuse {

struct Raised {
  Ref type;
  std::string text;
};

// The current error, which is cleared.
[[nodiscard]] Raised TakeRaised(PyThreadState* thread);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_MESSAGES_RAISED_H_
