// CubinCache: compiled programs on disk. A file holds a checksum, the program's whole key (versions, architecture and
// text) and its cubin; what is corrupt, not ours or open to others is not used, and the log "cache" says why.
// Files are private to the user (0600 in a folder of 0700) and appear whole (rename).
#ifndef FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_CACHE_H_
#define FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_CACHE_H_

#include <optional>
#include <string>
#include <string_view>

namespace framefuse::cuda {

class CubinCache {
 public:
  // The folder of config().cache_dir, or FRAMEFUSE_CACHE_DIR, or the user's cache folder.
  CubinCache();
  explicit CubinCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<std::string> Find(std::string_view key) const;
  void Store(std::string_view key, std::string_view cubin) const;  // failures are logged: it is only a cache
  std::string PathOf(std::string_view key) const;

 private:
  std::string folder_;  // empty: no cache
};

}  // namespace framefuse::cuda

#endif  // FRAMEFUSE_BACKENDS_CUDA_RUNTIME_CUBIN_CACHE_H_
