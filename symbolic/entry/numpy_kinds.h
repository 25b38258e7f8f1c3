// The kinds of symbols of an entry that are numbers of numpy's types. Another guard compares the type.
#ifndef FRAMEFUSE_SYMBOLIC_ENTRY_NUMPY_KINDS_H_
#define FRAMEFUSE_SYMBOLIC_ENTRY_NUMPY_KINDS_H_

namespace framefuse {

// Beside kIsNumber and kIsFloat (entry_sizes.h).
inline constexpr int kIsNumpyNumber = -4, kIsNumpyFloat = -5;

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_ENTRY_NUMPY_KINDS_H_
