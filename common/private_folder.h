// PrivateFolder: files that only this user can have written. A folder or file that belongs to another user, that others
// may write, or that is a link is refused. Files (0600) appear whole or not at all, whoever else reads and writes.
#ifndef FRAMEFUSE_COMMON_PRIVATE_FOLDER_H_
#define FRAMEFUSE_COMMON_PRIVATE_FOLDER_H_

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace framefuse {

class PrivateFolder {
 public:
  enum class IfMissing { kFail, kMake };
  // NotFound: there is none. The folder is held by its handle: what its path leads to later does not matter.
  static absl::StatusOr<PrivateFolder> Open(const std::string& path, IfMissing missing);
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  // NotFound, FailedPrecondition (it is refused), ResourceExhausted (longer than `most`). Marks the file as used now.
  absl::StatusOr<std::string> Read(const std::string& name, std::uint64_t most) const;
  absl::Status Write(const std::string& name, std::string_view bytes) const;

  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    timespec used{};
  };
  // Those whose names begin so; links and folders are none.
  std::vector<File> Files(std::string_view prefix = "") const;
  bool Remove(const std::string& name) const;
  // What a writer that died has left, if this is such a name.
  static bool IsUnfinished(std::string_view name);

 private:
  explicit PrivateFolder(int handle) : handle_(handle) {}
  int handle_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_PRIVATE_FOLDER_H_
