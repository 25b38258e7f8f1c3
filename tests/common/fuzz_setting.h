// FuzzSetting: a number from the environment for a random test (FF_FUZZ_SEED, how many sessions), or what it is
// otherwise. Each test says in its header what it reads.
#ifndef FRAMEFUSE_TESTS_COMMON_FUZZ_SETTING_H_
#define FRAMEFUSE_TESTS_COMMON_FUZZ_SETTING_H_

#include <cstdlib>

namespace framefuse {

inline int FuzzSetting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace framefuse

#endif  // FRAMEFUSE_TESTS_COMMON_FUZZ_SETTING_H_
