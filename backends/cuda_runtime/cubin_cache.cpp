#include "backends/cuda_runtime/cubin_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/config.h"
#include "common/logging.h"

namespace framefuse::cuda {
namespace {

constexpr std::string_view kMagic = "framefuse cubin 1\n";

// FNV-1a; collisions of names are found by comparing keys.
std::uint64_t Hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t h = 14695981039346656037ull ^ seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

struct Header {
  std::uint64_t checksum = 0;  // of the key and the cubin
  std::uint64_t key_bytes = 0, cubin_bytes = 0;
};

std::string DefaultFolder() {
  if (!config().disk_cache.get()) return "";
  if (std::string chosen = config().cache_dir.get(); !chosen.empty()) return chosen;
  if (const char* chosen = std::getenv("FRAMEFUSE_CACHE_DIR")) return chosen;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return std::string(cache) + "/framefuse";
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/framefuse" : "";
}

// Whether only this user can have written it.
bool IsPrivate(const struct stat& s) { return s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

bool MakeFolder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1)) {
    mkdir(folder.substr(0, slash).c_str(), 0700);
  }
  mkdir(folder.c_str(), 0700);
  struct stat s {};
  return stat(folder.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && IsPrivate(s);
}

// All bytes of a private file; nothing where there is no file, or with a reason.
std::optional<std::string> ReadPrivate(const std::string& path, const char** why) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    *why = errno == ENOENT ? nullptr : "cannot be opened";
    return std::nullopt;
  }
  struct stat s {};
  std::string bytes;
  if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || !IsPrivate(s)) {
    *why = "is not this user's own";
  } else {
    bytes.resize(static_cast<std::size_t>(s.st_size));
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t n = read(fd, bytes.data() + at, bytes.size() - at);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    bytes.resize(at);
  }
  close(fd);
  return bytes;
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

CubinCache::CubinCache() : folder_(DefaultFolder()) {}

std::string CubinCache::PathOf(std::string_view key) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(Hash(key, 0)),
                static_cast<unsigned long long>(Hash(key, 0x9e3779b97f4a7c15ull)));
  return folder_ + "/" + name + ".cubin";
}

std::optional<std::string> CubinCache::Find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = PathOf(key);
  const char* why = nullptr;
  const std::optional<std::string> bytes = ReadPrivate(path, &why);
  if (!bytes.has_value() && why == nullptr) return std::nullopt;
  std::string_view rest = bytes.has_value() ? std::string_view(*bytes) : std::string_view();
  Header header;
  if (why == nullptr && (rest.size() < kMagic.size() + sizeof header || rest.substr(0, kMagic.size()) != kMagic)) {
    why = "is no cache file";
  }
  if (why == nullptr) {
    rest.remove_prefix(kMagic.size());
    std::memcpy(&header, rest.data(), sizeof header);
    rest.remove_prefix(sizeof header);
    const bool whole = header.key_bytes <= rest.size() && header.cubin_bytes == rest.size() - header.key_bytes;
    if (!whole || Hash(rest, 0) != header.checksum) {
      why = "is corrupt";
    } else if (rest.substr(0, header.key_bytes) != key) {
      why = "is of another program";
    }
  }
  if (why != nullptr) {
    FF_LOG(kCache) << "ignored: " << path << " " << why;
    return std::nullopt;
  }
  return std::string(rest.substr(header.key_bytes));
}

void CubinCache::Store(std::string_view key, std::string_view cubin) const {
  if (folder_.empty()) return;
  const auto failed = [&](const char* what) { FF_LOG(kCache) << "not stored in " << folder_ << ": " << what; };
  if (!MakeFolder(folder_)) return failed("the folder is not this user's own");
  const std::string content = std::string(key) + std::string(cubin);
  const Header header{Hash(content, 0), key.size(), cubin.size()};
  std::string temporary = folder_ + "/.new.XXXXXX";
  const int fd = mkstemp(temporary.data());  // 0600
  if (fd < 0) return failed(std::strerror(errno));
  const bool written = WriteAll(fd, kMagic) && WriteAll(fd, {reinterpret_cast<const char*>(&header), sizeof header}) &&
                       WriteAll(fd, content);
  close(fd);
  if (!written || rename(temporary.c_str(), PathOf(key).c_str()) != 0) {
    unlink(temporary.c_str());
    failed("it could not be written");
  }
}

}  // namespace framefuse::cuda
