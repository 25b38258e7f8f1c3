// Numbers that classes have: counters of what was made, settings. They are compared where they matter, as numbers
// elsewhere are, and become symbolic where they change.
// Invariant: that a number of this type stands there is guarded, for another object may bind when it is read.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_CLASS_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_CLASS_NUMBERS_H_

#include "frame_eval/ref.h"

namespace framefuse {

class ReadJournal;

// ReadJournal::LookupInType of a class from outside, but of a number the type alone is guarded.
BorrowedRef FindInClass(ReadJournal& reads, PyTypeObject* type, BorrowedRef name);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_CLASS_NUMBERS_H_
