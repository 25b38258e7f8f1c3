// Lists and tuples of Python's own numbers, or of such lists, as torch.tensor() reads them.
// Invariant: runs no Python; what torch.tensor() would read in any other way, or refuse, is no such list.
#ifndef FRAMEFUSE_GUARDS_LEAF_NUMBER_LIST_H_
#define FRAMEFUSE_GUARDS_LEAF_NUMBER_LIST_H_

#include <cstdint>

#include "frame_eval/ref.h"

namespace framefuse {

// The index of a SourceKind::kTensorOfArray whose base is such a list: the first one leaves the type to torch.
inline constexpr std::int32_t kOfNumbers = 1 << 16;
inline constexpr std::int32_t IndexOfType(int scalar_type) { return kOfNumbers + 1 + scalar_type; }

// A new tensor. Null, and no error: it is no such list, or a number of it does not fit the type.
Ref TensorOfNumbers(BorrowedRef list, std::int32_t index);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_NUMBER_LIST_H_
