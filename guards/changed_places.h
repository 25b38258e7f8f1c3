// The texts under which it is noted that a sequence's length, or one of its items, is another one in a later call.
#ifndef FRAMEFUSE_GUARDS_CHANGED_PLACES_H_
#define FRAMEFUSE_GUARDS_CHANGED_PLACES_H_

#include <string>

namespace framefuse {

inline std::string TextOfLength(const std::string& sequence) { return "len(" + sequence + ")"; }
inline std::string TextOfItems(const std::string& sequence) { return sequence + "[...]"; }

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_CHANGED_PLACES_H_
