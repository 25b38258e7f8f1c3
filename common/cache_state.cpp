#include "common/cache_state.h"

#include <utility>

namespace framefuse {

CacheState& CacheState::Get() {
  static auto* const state = new CacheState;  // never destroyed: threads may compile at exit
  return *state;
}

void CacheState::Use(const std::string& name) {
  const std::lock_guard lock(mutex_);
  used_.insert(name);
}

std::vector<std::string> CacheState::Used() const {
  const std::lock_guard lock(mutex_);
  return {used_.begin(), used_.end()};
}

void CacheState::Give(const std::string& name, std::string packed) {
  const std::lock_guard lock(mutex_);
  given_[name] = std::move(packed);
}

std::optional<std::string> CacheState::Given(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = given_.find(name);
  return found == given_.end() ? std::nullopt : std::optional<std::string>(found->second);
}

bool CacheState::GiveUp(const std::string& folder, Way way) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = given_up_.emplace(folder, way);
  if (is_new || at->second == way || at->second == Way::kBoth) return is_new;
  at->second = way;
  return true;
}

bool CacheState::HasGivenUp(const std::string& folder, Way way) const {
  const std::lock_guard lock(mutex_);
  const auto found = given_up_.find(folder);
  return found != given_up_.end() && (found->second == Way::kBoth || way == Way::kStoring);
}

bool CacheState::IsTimeToLook(const std::string& folder, std::uint64_t stored, std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = stored_.emplace(folder, 0);
  at->second += stored;
  if (!is_new && at->second < step) return false;
  at->second = 0;
  return true;
}

}  // namespace framefuse
