// Memory of numpy's RandomState: the words of its Mersenne Twister, and the normal number that it has in store.
// Invariant: the layout is tried on a generator of known state before it is used; where the trial fails nothing has
// such memory. Who reads or writes it holds the lock of the bit generator, as numpy does while it draws.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_NUMPY_RANDOM_MEMORY_H_
#define FRAMEFUSE_SYMBOLIC_RULES_NUMPY_RANDOM_MEMORY_H_

#include <cstddef>

#include "frame_eval/ref.h"

namespace framefuse {

struct NumpyRandomMemory {
  static constexpr std::size_t kTwisterSize = 625 * sizeof(unsigned int), kStoreSize = 2 * sizeof(double);
  char* twister = nullptr;  // null: no such generator, or its layout is not known
  char* store = nullptr;
  Ref bits;  // holds the first
};

NumpyRandomMemory NumpyRandomMemoryOf(BorrowedRef generator);  // of exactly RandomState
// `waits`: false without an error if another thread draws. Releases the GIL where it waits.
bool LockBits(BorrowedRef bits, bool waits);
bool UnlockBits(BorrowedRef bits);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_NUMPY_RANDOM_MEMORY_H_
