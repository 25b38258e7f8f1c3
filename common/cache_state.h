// What a process knows of its disk caches: which entries it used, which it was given in a file, and what it has given
// up.
#ifndef FRAMEFUSE_COMMON_CACHE_STATE_H_
#define FRAMEFUSE_COMMON_CACHE_STATE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace framefuse {

class CacheState {
 public:
  static CacheState& Get();

  void Use(const std::string& name);
  std::vector<std::string> Used() const;

  void Give(const std::string& name, std::string packed);
  std::optional<std::string> Given(const std::string& name) const;

  enum class Way { kBoth, kStoring };
  // False: it was given up before, so that one line in the log is enough.
  bool GiveUp(const std::string& folder, Way way);
  bool HasGivenUp(const std::string& folder, Way way) const;

  // Counts what was stored; true: it is time to look how much there is, at first and after each `step` bytes.
  bool IsTimeToLook(const std::string& folder, std::uint64_t stored, std::uint64_t step);

 private:
  mutable std::mutex mutex_;
  std::set<std::string> used_;
  std::map<std::string, std::string> given_;
  std::map<std::string, Way> given_up_;
  std::map<std::string, std::uint64_t> stored_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_CACHE_STATE_H_
