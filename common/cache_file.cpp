// SaveCacheFile and LoadCacheFile (disk_cache.h): entries one after another behind one checksum.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/cache_state.h"
#include "common/disk_cache.h"
#include "common/logging.h"
#include "common/sha256.h"
#include "common/status.h"

namespace framefuse {
namespace {

constexpr std::string_view kMagic = "framefuse cache file 1\n";

absl::Status FileError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (file == nullptr) return FileError(path);
  std::string bytes, part(1 << 16, '\0');
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), file.get())) bytes.append(part, 0, n);
  if (std::ferror(file.get()) != 0) return FileError(path);
  return bytes;
}

// Whole, or not at all.
absl::Status WriteFile(const std::string& path, std::string_view bytes) {
  const std::string unfinished = absl::StrCat(path, ".", getpid(), ".new");
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (out.good() && std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = FileError(path);
  std::remove(unfinished.c_str());
  return status;
}

}  // namespace

absl::StatusOr<CacheFile> SaveCacheFile(const DiskCache& cache, const std::string& path) {
  CacheFile file;
  std::string entries;
  for (const std::string& name : CacheState::Get().Used()) {
    const absl::StatusOr<std::string> packed = cache.Packed(name);
    const absl::Status status = packed.ok() ? UnpackEntry(*packed).status() : packed.status();
    if (!status.ok()) {
      FF_LOG(kCache) << "not saved in " << path << ": " << name << ": " << MessageOf(status);
      continue;
    }
    AppendPiece(*packed, &entries);
    ++file.entries;
  }
  const std::string bytes = Sealed(kMagic, entries);
  FF_RETURN_IF_ERROR(WriteFile(path, bytes));
  file.sha256 = HexOf(Sha256().Add(bytes).Finish());
  FF_LOG(kCache) << "saved: " << file.entries << " entries in " << path;
  return file;
}

absl::StatusOr<std::size_t> LoadCacheFile(const std::string& path, std::string_view sha256) {
  FF_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  const auto refused = [&](const std::string& why) {
    FF_LOG(kCache) << "refused: " << path << ": " << why;
    return absl::OutOfRangeError(path + " is not loaded: " + why);
  };
  if (const std::string own = HexOf(Sha256().Add(bytes).Finish()); !sha256.empty() && own != sha256) {
    return refused("its SHA-256 is " + own + ", not " + std::string(sha256));
  }
  absl::StatusOr<std::string_view> rest = Unsealed(kMagic, bytes);
  if (!rest.ok()) return refused(MessageOf(rest.status()));
  std::map<std::string, std::string> entries;
  while (!rest->empty()) {
    std::string_view packed;
    if (!TakePiece(&*rest, &packed)) return refused("its parts do not fit");
    const absl::StatusOr<CacheEntry> entry = UnpackEntry(packed);
    if (!entry.ok()) return refused("an entry of it: " + MessageOf(entry.status()));
    entries[entry->Name()] = std::string(packed);
  }
  for (auto& [name, packed] : entries) CacheState::Get().Give(name, std::move(packed));
  FF_LOG(kCache) << "loaded: " << entries.size() << " entries of " << path;
  return entries.size();
}

}  // namespace framefuse
