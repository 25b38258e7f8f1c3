// BuildIdOf: which build of a library is loaded, so that what one build made is not taken for another's.
#ifndef FRAMEFUSE_COMMON_BUILD_ID_H_
#define FRAMEFUSE_COMMON_BUILD_ID_H_

#include <string>

namespace framefuse {

// The id that the linker gave the library or program that `address` is in; without one, its file's length and time.
std::string BuildIdOf(const void* address);
const std::string& OwnBuildId();  // framefuse's

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_BUILD_ID_H_
