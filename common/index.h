// At: an id or a count as an index. Ids are signed, so that there can be none of them; where one is looked up it is not
// negative.
#ifndef FRAMEFUSE_COMMON_INDEX_H_
#define FRAMEFUSE_COMMON_INDEX_H_

#include <concepts>
#include <cstddef>

namespace framefuse {

template <std::integral Id>
constexpr std::size_t At(Id id) {
  return static_cast<std::size_t>(id);
}

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_INDEX_H_
