// DictEpoch: a number that stays the same as long as no dict of the process changes.
// CPython draws dict version tags from one counter; a probe dict of our own tells whether anyone else drew from it
// since the last probe.
// Invariant: between two equal answers no dict was created or modified by anyone but the probe. Needs the GIL.
#ifndef FRAMEFUSE_GUARDS_DICT_EPOCH_H_
#define FRAMEFUSE_GUARDS_DICT_EPOCH_H_

#include <cstdint>

namespace framefuse {

// Never 0. Allocates nothing after the first call.
std::uint64_t DictEpoch();

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_DICT_EPOCH_H_
