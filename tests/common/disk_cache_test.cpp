// What is stored comes back; what is damaged, another's or open to others does not; the log says why.
#include "common/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "common/cache_state.h"
#include "common/config.h"
#include "tests/common/disk_cache_harness.h"

namespace framefuse {
namespace {

using ::testing::HasSubstr;

unsigned ModeOf(const std::string& path) {
  struct stat s {};
  EXPECT_EQ(stat(path.c_str(), &s), 0);
  return s.st_mode & 0777;
}

TEST_F(DiskCacheTest, KeepsBytesPrivately) {
  EXPECT_EQ(cache_.Find(Key("x")), std::nullopt);
  const std::string value("\0\1value\0", 8);
  cache_.Store(Key("x"), value);
  EXPECT_EQ(cache_.Find(Key("x")), value);
  EXPECT_EQ(cache_.Find(Key("y")), std::nullopt);
  EXPECT_EQ(ModeOf(PathOf("x")), 0600u);
  EXPECT_EQ(ModeOf(folder_), 0700u);
  EXPECT_EQ(ModeOf(root_), 0700u);
  cache_.Store(Key("x"), "newer");
  EXPECT_EQ(cache_.Find(Key("x")), "newer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(DiskCacheTest, MakesOnlyWhatItHasNot) {
  int made = 0;
  const auto make = [&]() -> absl::StatusOr<std::string> {
    ++made;
    return std::string("value");
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*cache_.Get(Key("x"), make), "value");
  EXPECT_EQ(made, 1);
  const auto fails = []() -> absl::StatusOr<std::string> { return absl::InternalError("no"); };
  EXPECT_FALSE(cache_.Get(Key("y"), fails).ok());
  EXPECT_EQ(cache_.Find(Key("y")), std::nullopt);
}

TEST_F(DiskCacheTest, AMissSaysWhy) {
  EXPECT_THAT(WhyNot("x"), HasSubstr("there is no folder " + folder_));
  cache_.Store(Key("other"), "value");
  EXPECT_THAT(WhyNot("x"), HasSubstr(": nothing made of this is kept"));
  cache_.Store({"test", "version 2", "x"}, "value");
  EXPECT_THAT(WhyNot("x"), HasSubstr("made by\n  version 2\nand what is asked for is made by\n  version 1"));
}

TEST_F(DiskCacheTest, EveryDamagedByteIsFound) {
  cache_.Store(Key("x"), "value");
  const std::string whole = BytesOf(PathOf("x"));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int bit : {1, 0x80}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      Write(PathOf("x"), damaged);
      EXPECT_THAT(WhyNot("x"), HasSubstr("refused: ")) << "byte " << i;
    }
    Write(PathOf("x"), whole.substr(0, i));
    EXPECT_THAT(WhyNot("x"), HasSubstr("refused: ")) << "cut at " << i;
  }
  Write(PathOf("x"), whole + "x");
  EXPECT_THAT(WhyNot("x"), HasSubstr("its checksum is wrong"));
  Write(PathOf("x"), whole);
  EXPECT_EQ(cache_.Find(Key("x")), "value");
}

TEST_F(DiskCacheTest, AnotherEntryUnderItsNameIsRefused) {
  cache_.Store(Key("x"), "value");
  cache_.Store(Key("y"), "another");
  std::filesystem::rename(PathOf("y"), PathOf("x"));
  EXPECT_THAT(WhyNot("x"), HasSubstr("it is another entry, under this name"));
}

TEST_F(DiskCacheTest, FilesThatOthersMayWriteAreRefusedAndMadeAnew) {
  cache_.Store(Key("x"), "value");
  chmod(PathOf("x").c_str(), 0620);
  EXPECT_THAT(WhyNot("x"), HasSubstr("other users may write it"));
  cache_.Store(Key("x"), "value");
  EXPECT_EQ(cache_.Find(Key("x")), "value");
}

TEST_F(DiskCacheTest, LinksFoldersAndPipesAreRefused) {
  cache_.Store(Key("x"), "value");
  std::filesystem::rename(PathOf("x"), folder_ + "/elsewhere");
  std::filesystem::create_symlink(folder_ + "/elsewhere", PathOf("x"));
  EXPECT_THAT(WhyNot("x"), HasSubstr("it is a link"));
  cache_.Store(Key("x"), "value");  // in the link's place
  EXPECT_EQ(cache_.Find(Key("x")), "value");
  std::filesystem::create_directory(PathOf("y"));
  EXPECT_THAT(WhyNot("y"), HasSubstr("it is no file"));
  ASSERT_EQ(mkfifo(PathOf("z").c_str(), 0600), 0);
  EXPECT_THAT(WhyNot("z"), HasSubstr("it is no file"));
}

TEST_F(DiskCacheTest, AnotherUsersFileIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  cache_.Store(Key("x"), "value");
  ASSERT_EQ(chown(PathOf("x").c_str(), 12345, 12345), 0);
  EXPECT_THAT(WhyNot("x"), HasSubstr("it belongs to user 12345"));
}

TEST_F(DiskCacheTest, AnotherUsersFolderIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  cache_.Store(Key("x"), "value");
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(WhyNot("x"), HasSubstr("the folder " + folder_ + " is not used: it belongs to user 12345"));
  cache_.Store(Key("y"), "value");
  EXPECT_FALSE(std::filesystem::exists(PathOf("y")));
  EXPECT_THAT(WhyNot("x"), HasSubstr("miss: "));  // the folder is named once
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteIsNotUsed) {
  cache_.Store(Key("x"), "value");
  chmod(folder_.c_str(), 0770);
  EXPECT_THAT(WhyNot("x"), HasSubstr("is not used: other users may write it"));
  cache_.Store(Key("y"), "value");
  EXPECT_FALSE(std::filesystem::exists(PathOf("y")));
}

TEST_F(DiskCacheTest, ALinkToAFolderIsNotUsed) {
  cache_.Store(Key("x"), "value");
  const std::string link = root_ + "/link";
  std::filesystem::create_directory_symlink(folder_, link);
  Said();
  EXPECT_EQ(DiskCache(link, 1 << 20).Find(Key("x")), std::nullopt);
  EXPECT_THAT(Said(), HasSubstr(link + " is not used: it is a link"));
  DiskCache(link, 1 << 20).Store(Key("y"), "value");
  EXPECT_FALSE(std::filesystem::exists(PathOf("y")));
}

TEST_F(DiskCacheTest, WhatWasUsedLongestAgoLeaves) {
  const DiskCache small(folder_, 20000);
  const auto used_at = [&](const std::string& content, long seconds) {
    const timespec at[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, PathOf(content).c_str(), at, 0), 0);
  };
  for (int i = 0; i < 9; ++i) {
    small.Store(Key(std::to_string(i)), std::string(1900, 'x'));
    used_at(std::to_string(i), 1000 + i);
  }
  Write(folder_ + "/of_the_user", std::string(50000, 'x'));
  EXPECT_TRUE(small.Find(Key("0")).has_value());  // used now
  Said();
  small.Store(Key("large"), std::string(3000, 'x'));
  EXPECT_THAT(Said(), HasSubstr("removed: " + EntryName(Key("1"))));
  EXPECT_TRUE(small.Find(Key("0")).has_value());
  EXPECT_TRUE(small.Find(Key("large")).has_value());
  EXPECT_FALSE(small.Find(Key("1")).has_value());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/of_the_user"));
  Said();
  small.Store(Key("too large"), std::string(30000, 'x'));
  EXPECT_THAT(Said(), HasSubstr("not stored: "));
  EXPECT_FALSE(small.Find(Key("too large")).has_value());
}

TEST_F(DiskCacheTest, WhatDeadWritersLeftIsRemoved) {
  std::filesystem::create_directories(folder_);
  const std::string old = folder_ + "/.framefuse-new-1-a", fresh = folder_ + "/.framefuse-new-2-b";
  Write(old, "half");
  Write(fresh, "half");
  const timespec at[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, old.c_str(), at, 0), 0);
  cache_.Store(Key("x"), "value");
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
}

TEST_F(DiskCacheTest, TheFolderIsTheConfigs) {
  config().cache_dir.set(folder_);
  DiskCache().Store(Key("x"), "value");
  config().cache_dir.set("");
  EXPECT_EQ(cache_.Find(Key("x")), "value");
  setenv("FRAMEFUSE_CACHE_DIR", folder_.c_str(), 1);
  EXPECT_EQ(DiskCache().Find(Key("x")), "value");
  config().cache.set(false);
  EXPECT_EQ(DiskCache().Find(Key("x")), std::nullopt);
  DiskCache().Store(Key("y"), "value");
  config().cache.set(true);
  EXPECT_EQ(DiskCache().Find(Key("y")), std::nullopt);
  unsetenv("FRAMEFUSE_CACHE_DIR");
  setenv("XDG_CACHE_HOME", (root_ + "/a").c_str(), 1);
  EXPECT_EQ(DiskCache().folder(), root_ + "/a/framefuse");
  unsetenv("XDG_CACHE_HOME");
}

TEST(CacheEntryTest, NamesAreStrict) {
  const std::string name = EntryName({"cubin", "by", "text"});
  EXPECT_TRUE(IsEntryName(name));
  for (const std::string& other :
       {std::string(), name + "x", "x/" + name, "C" + name, name.substr(1 + name.find('-')), "-" + name}) {
    EXPECT_FALSE(IsEntryName(other)) << other;
  }
}

}  // namespace
}  // namespace framefuse
