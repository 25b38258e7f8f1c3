// Keys of dicts and elements of sets: ObjectTable::AdoptElement, and what others ask of them.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_ELEMENTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_ELEMENTS_H_

#include "frame_eval/ref.h"

namespace framefuse {

// Of a Python class without __eq__ and __hash__ of its own: it is equal to itself only.
bool IsKnownByAddress(BorrowedRef object);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_ELEMENTS_H_
