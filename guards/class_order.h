// Which classes a type is made of: names that stand for them in a guard of kind kTypeLookup, which are no look-ups.
// Invariant: each goes with a change of the type's version, as a look-up does.
#ifndef FRAMEFUSE_GUARDS_CLASS_ORDER_H_
#define FRAMEFUSE_GUARDS_CLASS_ORDER_H_

#include <vector>

#include "guards/held.h"

namespace framefuse {

inline constexpr const char* kOrderOfClasses = "mro()";
inline constexpr const char* kBasesOfClass = "bases()";

bool IsOrderOfClasses(BorrowedRef name);
bool HasOrderOfClasses(BorrowedRef type, BorrowedRef name, const std::vector<Held>& classes);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_CLASS_ORDER_H_
