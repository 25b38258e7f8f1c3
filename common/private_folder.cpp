#include "common/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace framefuse {
namespace {

constexpr std::string_view kUnfinished = ".framefuse-new-";

class Handle {
 public:
  explicit Handle(int handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ >= 0) close(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  int get() const { return handle_; }
  int release() { return std::exchange(handle_, -1); }

 private:
  int handle_;
};

absl::Status ErrorOf(int error) {
  const std::string text = std::strerror(error);
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == ELOOP || error == ENOTDIR) return absl::FailedPreconditionError("it is a link, or no folder");
  return absl::UnavailableError(text);
}

// Why somebody else can have written what `s` is of; OK: nobody can.
absl::Status CheckOwned(const struct stat& s) {
  if (s.st_uid != geteuid()) return absl::FailedPreconditionError(absl::StrCat("it belongs to user ", s.st_uid));
  if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) return absl::FailedPreconditionError("other users may write it");
  return absl::OkStatus();
}

bool WriteAll(int handle, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(handle, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string NewName() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
    random = reinterpret_cast<std::uintptr_t>(&random);  // another name will do if this one is taken
  }
  return absl::StrCat(std::string(kUnfinished), getpid(), "-", absl::Hex(random));
}

}  // namespace

absl::StatusOr<PrivateFolder> PrivateFolder::Open(const std::string& path, IfMissing missing) {
  if (missing == IfMissing::kMake) {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      mkdir(path.substr(0, slash).c_str(), 0700);
    }
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrorOf(errno == ENOENT ? EACCES : errno);
  }
  Handle handle(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat s {};
  if (handle.get() < 0 || fstat(handle.get(), &s) != 0) return ErrorOf(errno);
  if (absl::Status status = CheckOwned(s); !status.ok()) return status;
  return PrivateFolder(handle.release());
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

PrivateFolder::~PrivateFolder() {
  if (handle_ >= 0) close(handle_);
}

absl::StatusOr<std::string> PrivateFolder::Read(const std::string& name, std::uint64_t most) const {
  // O_NONBLOCK: a pipe would keep us waiting.
  const Handle file(openat(handle_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat s {};
  if (file.get() < 0 || fstat(file.get(), &s) != 0) return ErrorOf(errno);
  if (!S_ISREG(s.st_mode)) return absl::FailedPreconditionError("it is no file");
  if (absl::Status status = CheckOwned(s); !status.ok()) return status;
  if (static_cast<std::uint64_t>(s.st_size) > most) return absl::ResourceExhaustedError("it is too long");
  std::string bytes(static_cast<std::size_t>(s.st_size), '\0');
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = read(file.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorOf(errno);
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  bytes.resize(at);
  futimens(file.get(), nullptr);
  return bytes;
}

absl::Status PrivateFolder::Write(const std::string& name, std::string_view bytes) const {
  const std::string unfinished = NewName();
  const int made = openat(handle_, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (made < 0) return absl::UnavailableError(std::strerror(errno));
  bool written = fchmod(made, 0600) == 0 && WriteAll(made, bytes);
  int error = errno;
  if (close(made) != 0 && written) written = false, error = errno;  // a full disk may be noticed here
  if (written && renameat(handle_, unfinished.c_str(), handle_, name.c_str()) == 0) return absl::OkStatus();
  if (written) error = errno;
  unlinkat(handle_, unfinished.c_str(), 0);
  return absl::UnavailableError(std::strerror(error));
}

std::vector<PrivateFolder::File> PrivateFolder::Files(std::string_view prefix) const {
  std::vector<File> files;
  const int own = openat(handle_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // fdopendir takes it
  DIR* folder = own < 0 ? nullptr : fdopendir(own);
  if (folder == nullptr) {
    if (own >= 0) close(own);
    return files;
  }
  while (const dirent* entry = readdir(folder)) {
    struct stat s {};
    if (std::string_view(entry->d_name).substr(0, prefix.size()) != prefix) continue;
    if (fstatat(handle_, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
    files.push_back({entry->d_name, static_cast<std::uint64_t>(s.st_size), s.st_mtim});
  }
  closedir(folder);
  return files;
}

bool PrivateFolder::Remove(const std::string& name) const { return unlinkat(handle_, name.c_str(), 0) == 0; }

bool PrivateFolder::IsUnfinished(std::string_view name) { return name.substr(0, kUnfinished.size()) == kUnfinished; }

}  // namespace framefuse
