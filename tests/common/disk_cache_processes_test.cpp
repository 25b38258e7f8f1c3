// The disk cache where a disk is full or cannot be written, and where many use it at once.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/common/disk_cache_harness.h"

namespace framefuse {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ValueOf(int i) {
  return std::string(static_cast<std::size_t>(200 + 37 * i), static_cast<char>('a' + i % 26));
}

TEST_F(DiskCacheTest, SixteenProcessesStoreFindAndRemove) {
  std::vector<pid_t> children;
  for (int p = 0; p < 16; ++p) {
    children.push_back(Start([&, p] {
      const DiskCache small(folder_, 6000);  // not enough for all: entries leave while others read them
      int found = 0;
      for (int round = 0; round < 300; ++round) {
        const int i = (round * 7 + p) % 20;
        auto value = small.Find(Key(std::to_string(i)));
        if (!value.has_value()) {  // a process that is alone finds what it has just stored, and nothing else
          small.Store(Key(std::to_string(i)), ValueOf(i));
          value = small.Find(Key(std::to_string(i)));
        }
        if (!value.has_value()) continue;
        EXPECT_EQ(*value, ValueOf(i));
        ++found;
      }
      EXPECT_GT(found, 0);
      EXPECT_THAT(said_, Not(HasSubstr("refused")));
      EXPECT_THAT(said_, Not(HasSubstr("not used")));
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(Ended(child));
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    EXPECT_TRUE(IsEntryName(file.path().filename().string())) << file.path();
  }
}

TEST_F(DiskCacheTest, WritersThatAreKilledLeaveNoHalfEntry) {
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    children.push_back(Start([&] {
      for (;;) cache_.Store(Key("x"), std::string(100000, 'x'));
    }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  EXPECT_EQ(cache_.Find(Key("x")), std::string(100000, 'x'));
}

TEST_F(DiskCacheTest, EightThreadsStoreAndFind) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        cache_.Store(Key("x"), std::string(1000, 'x'));
        EXPECT_EQ(cache_.Find(Key("x")), std::string(1000, 'x'));
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(DiskCacheTest, WhereFilesMayNotGrowNothingIsStored) {
  cache_.Store(Key("small"), "value");
  EXPECT_TRUE(InAProcess([&] {
    std::signal(SIGXFSZ, SIG_IGN);  // as Python does
    const rlimit limit{1000, 1000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cache_.Store(Key("x"), std::string(5000, 'x'));
    EXPECT_THAT(Said(), HasSubstr("not stored in " + folder_ + ": File too large; no more is stored there"));
    cache_.Store(Key("y"), std::string(5000, 'x'));
    EXPECT_EQ(Said(), "");  // said once
    EXPECT_EQ(cache_.Find(Key("x")), std::nullopt);
    EXPECT_EQ(cache_.Find(Key("small")), "value");
  }));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// A file system of its own, in a process of its own.
bool MountSmall(const std::string& at) {
  std::filesystem::create_directories(at);
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("small", at.c_str(), "tmpfs", 0, "size=64k,mode=0700") == 0;
}
bool CanMount() {
  return geteuid() == 0 && [] {
    const pid_t child = fork();
    if (child == 0) _exit(MountSmall(::testing::TempDir() + "framefuse_mount") ? 0 : 1);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
  }();
}

TEST_F(DiskCacheTest, AFullDiskIsNoCache) {
  if (!CanMount()) GTEST_SKIP() << "may not mount a small disk";
  EXPECT_TRUE(InAProcess([&] {
    ASSERT_TRUE(MountSmall(folder_));
    for (int i = 0; i < 20; ++i) cache_.Store(Key(std::to_string(i)), std::string(10000, 'x'));
    const std::string said = Said(), full = "No space left on device";
    EXPECT_THAT(said, HasSubstr("not stored in " + folder_ + ": " + full));
    EXPECT_EQ(said.find(full), said.rfind(full));
    EXPECT_EQ(cache_.Find(Key("0")), std::string(10000, 'x'));
    EXPECT_EQ(cache_.Find(Key("19")), std::nullopt);
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      EXPECT_TRUE(IsEntryName(file.path().filename().string())) << file.path();
    }
  }));
}

TEST_F(DiskCacheTest, AReadOnlyDiskIsRead) {
  if (!CanMount()) GTEST_SKIP() << "may not mount a small disk";
  EXPECT_TRUE(InAProcess([&] {
    ASSERT_TRUE(MountSmall(folder_));
    cache_.Store(Key("x"), "value");
    ASSERT_EQ(mount("small", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
    EXPECT_EQ(cache_.Find(Key("x")), "value");
    Said();
    cache_.Store(Key("y"), "value");
    EXPECT_THAT(Said(), HasSubstr("not stored in " + folder_ + ": Read-only file system; no more is stored there"));
    EXPECT_EQ(cache_.Find(Key("y")), std::nullopt);
  }));
}

TEST_F(DiskCacheTest, AFolderThatCannotBeMadeIsNoCache) {
  std::filesystem::create_directories(root_);
  Write(root_ + "/file", "");
  const DiskCache cache(root_ + "/file/cache", 1 << 20);
  cache.Store(Key("x"), "value");
  EXPECT_THAT(Said(), HasSubstr(root_ + "/file/cache"));
  EXPECT_EQ(cache.Find(Key("x")), std::nullopt);
}

// --- one file

TEST_F(DiskCacheTest, AFileHasWhatTheProcessUsed) {
  const std::string file = root_ + "/model.ffcache";
  EXPECT_TRUE(InAProcess([&] {
    cache_.Store(Key("x"), "value");
    cache_.Store(Key("y"), "another");
  }));
  EXPECT_TRUE(InAProcess([&] {
    EXPECT_EQ(cache_.Find(Key("x")), "value");
    const auto saved = SaveCacheFile(cache_, file);
    ASSERT_TRUE(saved.ok());
    EXPECT_EQ(saved->entries, 1u);
    EXPECT_EQ(saved->sha256.size(), 64u);
    EXPECT_FALSE(LoadCacheFile(file, std::string(64, '0')).ok());
    EXPECT_TRUE(LoadCacheFile(file, saved->sha256).ok());
  }));
  EXPECT_TRUE(InAProcess([&] {
    const DiskCache none("", 0);
    EXPECT_EQ(none.Find(Key("x")), std::nullopt);
    ASSERT_EQ(*LoadCacheFile(file, ""), 1u);
    EXPECT_EQ(none.Find(Key("x")), "value");
    EXPECT_EQ(none.Find({"test", "version 2", "x"}), std::nullopt);
    EXPECT_EQ(SaveCacheFile(none, file + ".2")->entries, 1u);
    EXPECT_EQ(BytesOf(file + ".2"), BytesOf(file));
  }));
}

TEST_F(DiskCacheTest, EveryDamagedByteOfAFileIsFound) {
  const std::string file = root_ + "/model.ffcache";
  EXPECT_TRUE(InAProcess([&] {
    cache_.Store(Key("x"), "value");
    ASSERT_TRUE(SaveCacheFile(cache_, file).ok());
    const std::string whole = BytesOf(file);
    const DiskCache none("", 0);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 1);
      Write(file, damaged);
      EXPECT_FALSE(LoadCacheFile(file, "").ok()) << i;
      Write(file, whole.substr(0, i));
      EXPECT_FALSE(LoadCacheFile(file, "").ok()) << i;
      EXPECT_THAT(Said(), HasSubstr("refused: " + file));
    }
    EXPECT_EQ(none.Find(Key("x")), std::nullopt);
    EXPECT_FALSE(LoadCacheFile(file + ".none", "").ok());
    EXPECT_FALSE(SaveCacheFile(cache_, root_ + "/none/file").ok());
  }));
}

}  // namespace
}  // namespace framefuse
