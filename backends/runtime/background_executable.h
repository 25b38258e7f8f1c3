// Makes executables that run at once, their graph operator by operator, while what `factory` makes of it is made behind
// the program; from then on that runs (config.background).
// Invariant: a run is of one of the two from its beginning to its end, and both leave values laid out as the graph
// says.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_BACKGROUND_EXECUTABLE_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_BACKGROUND_EXECUTABLE_H_

#include <cstdint>

#include "backends/runtime/executable.h"

namespace framefuse {

// One that can't be run operator by operator is made at once.
ExecutableFactory InBackground(ExecutableFactory factory);

// Of this process: executables that were begun, those that took over, and those that could not be made.
struct BackgroundCounts {
  std::int64_t begun = 0, done = 0, failed = 0;
};
BackgroundCounts GetBackgroundCounts();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_BACKGROUND_EXECUTABLE_H_
