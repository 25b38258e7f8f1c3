// For tests of the disk cache: a folder of its own, an entry's bytes, what the log says, and processes.
#ifndef FRAMEFUSE_TESTS_COMMON_DISK_CACHE_HARNESS_H_
#define FRAMEFUSE_TESTS_COMMON_DISK_CACHE_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/disk_cache.h"
#include "common/logging.h"

namespace framefuse {

class DiskCacheTest : public ::testing::Test {
 protected:
  // A folder that no other test uses: what a process gives up, it gives up for good.
  DiskCacheTest()
      : root_(::testing::TempDir() + "framefuse_cache_" + std::to_string(getpid()) + "_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        folder_(root_ + "/a/b"),
        cache_(folder_, std::uint64_t{1} << 30) {
    mask_ = LogMask();
    SetLogEnabled(LogArtifact::kCache, true);
    SetLogSink([this](LogArtifact, std::string_view text) { said_.append(text).append("\n"); });
  }
  ~DiskCacheTest() override {
    SetLogSink({});
    SetLogMask(mask_);
    std::filesystem::remove_all(root_);
  }

  static CacheKey Key(const std::string& content) { return {"test", "version 1", content}; }
  std::string PathOf(const std::string& content) const { return folder_ + "/" + EntryName(Key(content)); }
  static std::string BytesOf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string Said() { return std::exchange(said_, ""); }
  // What is said of a look-up that finds nothing.
  std::string WhyNot(const std::string& content) {
    Said();
    EXPECT_EQ(cache_.Find(Key(content)), std::nullopt);
    return Said();
  }

  // Whether it ends without an error in a process of its own, in which expectations are told as usual.
  static bool InAProcess(const std::function<void()>& work) { return Ended(Start(work)); }
  static pid_t Start(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child != 0) return child;
    work();
    std::fflush(stdout);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  static bool Ended(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  const std::string root_, folder_;
  const DiskCache cache_;
  std::string said_;
  std::uint64_t mask_ = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_TESTS_COMMON_DISK_CACHE_HARNESS_H_
