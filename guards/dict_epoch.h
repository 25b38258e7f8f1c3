// DictEpoch: a number that stays the same as long as no dict that a guard program relies on changes.
// Where CPython tells of changes (from 3.12 on), those are the dicts given to KeepInEpoch. Elsewhere they are all dicts
// of the process: CPython draws version tags from one counter, and a probe dict of our own tells whether anyone else
// drew from it since the last probe. Invariant: between two equal answers other than 0 none of those dicts was modified
// or ended. Needs the GIL.
#ifndef FRAMEFUSE_GUARDS_DICT_EPOCH_H_
#define FRAMEFUSE_GUARDS_DICT_EPOCH_H_

#include <Python.h>

#include <cstdint>

namespace framefuse {

// 0: nothing tells, each time is another. Allocates nothing after the first call.
std::uint64_t DictEpoch();

// False: every dict is followed.
bool EpochFollowsKeptDicts();

// From now on the epoch moves when the dict ends, and when it changes. False: not when it changes, for that is too
// often, or not told; its own version tag tells, where it has one.
bool KeepInEpoch(PyObject* dict);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_DICT_EPOCH_H_
