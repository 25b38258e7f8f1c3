#include "common/disk_cache.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/cache_state.h"
#include "common/config.h"
#include "common/logging.h"
#include "common/private_folder.h"
#include "common/status.h"

namespace framefuse {
namespace {

using Way = CacheState::Way;

constexpr std::uint64_t kMostOfAnEntry = std::uint64_t{1} << 30;
constexpr std::time_t kUnfinishedFor = 3600;  // seconds; then its writer is dead

std::string ChosenFolder() {
  if (std::string chosen = config().cache_dir.get(); !chosen.empty()) return chosen;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string chosen = variable("FRAMEFUSE_CACHE_DIR"); !chosen.empty()) return chosen;
  // A relative XDG_CACHE_HOME is to be ignored, says the XDG Base Directory Specification.
  if (const std::string caches = variable("XDG_CACHE_HOME"); caches[0] == '/') return caches + "/framefuse";
  const std::string home = variable("HOME");
  return home[0] == '/' ? home + "/.cache/framefuse" : "";
}

void GiveUp(const std::string& folder, const absl::Status& why) {
  if (!CacheState::Get().GiveUp(folder, Way::kBoth)) return;
  FF_LOG(kCache) << "the folder " << folder << " is not used: " << MessageOf(why);
}

// Why a folder without the entry has none: those of other environments are named.
std::string WhyMissing(const PrivateFolder& folder, const CacheKey& key) {
  for (const PrivateFolder::File& file : folder.Files(EntryPrefix(key))) {
    const absl::StatusOr<std::string> bytes = folder.Read(file.name, kMostOfAnEntry);
    const absl::StatusOr<CacheEntry> entry =
        bytes.ok() ? UnpackEntry(*bytes) : absl::StatusOr<CacheEntry>(bytes.status());
    if (entry.ok())
      return "there is one made by\n  " + entry->environment + "\nand what is asked for is made by\n  " +
             key.environment;
  }
  return "nothing made of this is kept";
}

// Removes what was used longest ago until there is some room again, and what dead writers left.
void KeepWithin(const PrivateFolder& folder, std::uint64_t most) {
  std::vector<PrivateFolder::File> entries;
  std::uint64_t total = 0;
  const std::time_t now = std::time(nullptr);
  for (PrivateFolder::File& file : folder.Files()) {
    if (PrivateFolder::IsUnfinished(file.name) && now - file.used.tv_sec > kUnfinishedFor) folder.Remove(file.name);
    if (!IsEntryName(file.name)) continue;
    total += file.bytes;
    entries.push_back(std::move(file));
  }
  if (total <= most) return;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  for (const PrivateFolder::File& file : entries) {
    if (total <= most / 10 * 9) break;
    if (!folder.Remove(file.name)) continue;
    FF_LOG(kCache) << "removed: " << file.name << ", " << file.bytes << " bytes, last used " << now - file.used.tv_sec
                   << " s ago: there were " << total << " bytes, and config.cache_megabytes allows " << most;
    total -= file.bytes;
  }
}

}  // namespace

DiskCache::DiskCache()
    : on_(config().cache.get()),
      folder_(on_ ? ChosenFolder() : ""),
      most_bytes_(static_cast<std::uint64_t>(config().cache_megabytes.get()) << 20) {}

absl::StatusOr<std::string> DiskCache::Packed(const std::string& name) const {
  if (std::optional<std::string> given = CacheState::Get().Given(name)) return *std::move(given);
  if (folder_.empty()) return absl::NotFoundError("there is no folder to keep it in");
  if (CacheState::Get().HasGivenUp(folder_, Way::kBoth)) return absl::CancelledError("the folder is not used");
  const absl::StatusOr<PrivateFolder> folder = PrivateFolder::Open(folder_, PrivateFolder::IfMissing::kFail);
  if (folder.ok()) return folder->Read(name, kMostOfAnEntry);
  if (absl::IsNotFound(folder.status())) return folder.status();
  GiveUp(folder_, folder.status());
  return absl::CancelledError("the folder is not used");
}

absl::StatusOr<std::string> DiskCache::Look(const CacheKey& key, const std::string& name) const {
  FF_ASSIGN_OR_RETURN(const std::string bytes, Packed(name));
  FF_ASSIGN_OR_RETURN(CacheEntry entry, UnpackEntry(bytes));
  const bool same =
      entry.kind == key.kind && entry.environment == key.environment && entry.content_hash == ContentHash(key);
  if (!same) return absl::DataLossError("it is another entry, under this name");
  return std::move(entry.value);
}

std::optional<std::string> DiskCache::Find(const CacheKey& key) const {
  if (!on_) return std::nullopt;
  const std::string name = EntryName(key);
  absl::StatusOr<std::string> found = Look(key, name);
  if (found.ok()) {
    CacheState::Get().Use(name);
    FF_LOG(kCache) << "hit: " << name << " of " << folder_;
    return *std::move(found);
  }
  if (!LogEnabled(LogArtifact::kCache)) return std::nullopt;
  const bool is_there = !absl::IsNotFound(found.status()) && !absl::IsCancelled(found.status());
  if (is_there) {
    FF_LOG(kCache) << "refused: " << name << " of " << folder_ << ": " << MessageOf(found.status());
    return std::nullopt;
  }
  std::string why = MessageOf(found.status());
  if (!folder_.empty() && absl::IsNotFound(found.status())) {
    const absl::StatusOr<PrivateFolder> folder = PrivateFolder::Open(folder_, PrivateFolder::IfMissing::kFail);
    why = folder.ok() ? WhyMissing(*folder, key) : "there is no folder " + folder_;
  }
  FF_LOG(kCache) << "miss: " << name << ": " << why;
  return std::nullopt;
}

void DiskCache::Store(const CacheKey& key, std::string_view value) const {
  CacheState& state = CacheState::Get();
  if (!on_ || folder_.empty() || state.HasGivenUp(folder_, Way::kStoring)) return;
  const std::string packed = PackEntry(key, value), name = EntryName(key);
  if (packed.size() > std::min(most_bytes_, kMostOfAnEntry)) {
    FF_LOG(kCache) << "not stored: " << name << " has " << packed.size() << " bytes, and " << most_bytes_
                   << " are allowed for all entries (config.cache_megabytes)";
    return;
  }
  const absl::StatusOr<PrivateFolder> folder = PrivateFolder::Open(folder_, PrivateFolder::IfMissing::kMake);
  if (absl::IsFailedPrecondition(folder.status())) return GiveUp(folder_, folder.status());
  const absl::Status written = folder.ok() ? folder->Write(name, packed) : folder.status();
  if (!written.ok()) {
    // A disk that is full or that nobody may write on stays so for a while: others need not try.
    if (state.GiveUp(folder_, Way::kStoring)) {
      FF_LOG(kCache) << "not stored in " << folder_ << ": " << MessageOf(written) << "; no more is stored there";
    }
    return;
  }
  state.Use(name);
  if (state.IsTimeToLook(folder_, packed.size(), most_bytes_ / 16)) KeepWithin(*folder, most_bytes_);
}

absl::StatusOr<std::string> DiskCache::Get(const CacheKey& key,
                                           const std::function<absl::StatusOr<std::string>()>& make) const {
  if (std::optional<std::string> found = Find(key)) return *std::move(found);
  absl::StatusOr<std::string> made = make();
  if (made.ok()) Store(key, *made);
  return made;
}

}  // namespace framefuse
