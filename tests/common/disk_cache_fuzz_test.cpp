// Random damage to a cache's folder: files flipped, cut, swapped, given away, opened to others, made links. What Find
// returns is always what the key's value is, and never from a file that another user can have written.
#include <fcntl.h>
#include <sys/stat.h>

#include <random>

#include "tests/common/disk_cache_harness.h"

namespace framefuse {
namespace {

class DiskCacheFuzz : public DiskCacheTest {
 protected:
  std::size_t Below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  CacheKey AnyKey() {
    return {Below(2) == 0 ? "test" : "other", "version " + std::to_string(Below(3)), std::to_string(Below(3))};
  }
  static std::string ValueOf(const CacheKey& key) {
    return "the value of " + key.kind + " " + key.environment + " " + key.content;
  }
  std::string AnyPath() { return folder_ + "/" + EntryName(AnyKey()); }
  static bool OthersMayHaveWritten(const std::string& path) {
    struct stat s {};
    if (lstat(path.c_str(), &s) != 0) return false;
    return S_ISLNK(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 022) != 0;
  }

  void Damage(const std::string& path) {
    std::string bytes = BytesOf(path);
    switch (Below(8)) {
      case 0:
      case 1:
        if (!bytes.empty()) bytes[Below(bytes.size())] ^= static_cast<char>(1 << Below(7));
        return Write(path, bytes);
      case 2:
        return Write(path, bytes.substr(0, Below(bytes.size() + 1)));
      case 3:
        return Write(path, bytes + bytes);
      case 4:
        return Write(path, BytesOf(AnyPath()));
      case 5:
        chmod(path.c_str(), Below(2) == 0 ? 0620 : 0602);
        return;
      case 6:
        if (geteuid() == 0) {
          EXPECT_EQ(lchown(path.c_str(), 12345, 12345), 0);
        }
        return;
      default:
        std::filesystem::rename(path, folder_ + "/elsewhere");
        std::filesystem::create_symlink(folder_ + "/elsewhere", path);
    }
  }

  std::mt19937_64 random_{20261127};
};

TEST_F(DiskCacheFuzz, WhatIsFoundIsRight) {
  int found = 0, refused = 0;
  for (int i = 0; i < 1500; ++i) {
    const CacheKey key = AnyKey();
    const std::string path = folder_ + "/" + EntryName(key);
    if (Below(2) == 0 && std::filesystem::exists(std::filesystem::symlink_status(path))) Damage(path);
    const bool others = OthersMayHaveWritten(path);
    const auto value = cache_.Find(key);
    if (value.has_value()) {
      ++found;
      ASSERT_EQ(*value, ValueOf(key)) << "step " << i;
      ASSERT_FALSE(others) << "step " << i;
    } else if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
      ++refused;
      ASSERT_NE(said_.find("refused: " + EntryName(key)), std::string::npos) << "step " << i;
    }
    Said();
    if (Below(3) != 0) cache_.Store(key, ValueOf(key));
  }
  EXPECT_GT(found, 200);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace framefuse
