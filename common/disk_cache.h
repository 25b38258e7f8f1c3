// DiskCache: bytes that were made of others and are kept between processes (docs/cache.md). An entry is named by what
// it was made of and by whom, has a checksum, and is in a folder that is this user's alone. Invariants: what Find
// returns is what Store was given for an equal key; no failure is more than a miss; each miss, refusal and removal is
// in the log "cache".
#ifndef FRAMEFUSE_COMMON_DISK_CACHE_H_
#define FRAMEFUSE_COMMON_DISK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/cache_entry.h"

namespace framefuse {

class DiskCache {
 public:
  // As config() and the environment say.
  DiskCache();
  // Without a folder nothing is kept; what LoadCacheFile took is found all the same.
  DiskCache(std::string folder, std::uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  std::optional<std::string> Find(const CacheKey& key) const;
  void Store(const CacheKey& key, std::string_view value) const;
  // Finds it, or makes and stores it.
  absl::StatusOr<std::string> Get(const CacheKey& key, const std::function<absl::StatusOr<std::string>()>& make) const;
  // The bytes of an entry that this process found or stored, with its checksum; an error says why not.
  absl::StatusOr<std::string> Packed(const std::string& name) const;

  const std::string& folder() const { return folder_; }

 private:
  // The error says why this key has none.
  absl::StatusOr<std::string> Look(const CacheKey& key, const std::string& name) const;

  bool on_ = true;
  std::string folder_;
  std::uint64_t most_bytes_;
};

// --- one file beside a model, for processes and machines that have no such folder

struct CacheFile {
  std::size_t entries = 0;
  std::string sha256;  // of the file, in hexadecimal digits
};
// All entries that this process found or stored.
absl::StatusOr<CacheFile> SaveCacheFile(const DiskCache& cache, const std::string& path);
// This process finds the file's entries from now on. Its machine code is run: it must come from where the program does.
// A file with another hash than `sha256` (empty: any) is refused, and so is one that is damaged, as a whole.
absl::StatusOr<std::size_t> LoadCacheFile(const std::string& path, std::string_view sha256);

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_DISK_CACHE_H_
