// written_numbers: places of the program's own that a frame gives a number, as the next call reads them. What a frame
// changes it counts, and its first capture takes for symbolic. What it writes as it was it may schedule: the second
// capture does.
#ifndef FRAMEFUSE_SYMBOLIC_RECONSTRUCT_WRITTEN_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_RECONSTRUCT_WRITTEN_NUMBERS_H_

#include "symbolic/entry/compiled_entry.h"

namespace framefuse {

class Capture;

// Of those that held a number before.
NumbersWritten WrittenNumbers(Capture& capture);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RECONSTRUCT_WRITTEN_NUMBERS_H_
