// Cache files that are corrupt, truncated, of another program, or not the user's own are not used; what is stored comes
// back, privately.
#include "backends/cuda_runtime/cubin_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "common/logging.h"

namespace framefuse::cuda {
namespace {

class CubinCacheTest : public ::testing::Test {
 protected:
  CubinCacheTest()
      : folder_(::testing::TempDir() + "framefuse_cubins_" + std::to_string(getpid()) + "/a/b"), cache_(folder_) {}
  ~CubinCacheTest() override {
    std::filesystem::remove_all(std::filesystem::path(folder_).parent_path().parent_path());
  }
  static unsigned Mode(const std::string& path) {
    struct stat s {};
    EXPECT_EQ(stat(path.c_str(), &s), 0);
    return s.st_mode & 0777;
  }
  std::string Bytes() const {
    std::ifstream in(cache_.PathOf("key"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& bytes) const { std::ofstream(cache_.PathOf("key"), std::ios::binary) << bytes; }
  // What the log says of a look-up that finds nothing.
  std::string ReasonToIgnore() const {
    static std::string* said;
    std::string reason;
    said = &reason;
    const std::uint64_t before = LogMask();
    SetLogEnabled(LogArtifact::kCache, true);
    LogSink sink = SetLogSink([](LogArtifact, std::string_view text) { *said += text; });
    EXPECT_EQ(cache_.Find("key"), std::nullopt);
    SetLogSink(std::move(sink));
    SetLogMask(before);
    return reason;
  }

  const std::string folder_;
  const CubinCache cache_;
};

TEST_F(CubinCacheTest, KeepsBytesPrivately) {
  EXPECT_EQ(cache_.Find("key"), std::nullopt);
  const std::string cubin("\0\1cubin\0", 8);
  cache_.Store("key", cubin);
  EXPECT_EQ(cache_.Find("key"), cubin);
  EXPECT_EQ(cache_.Find("other"), std::nullopt);
  EXPECT_EQ(Mode(cache_.PathOf("key")), 0600u);
  EXPECT_EQ(Mode(folder_), 0700u);
  cache_.Store("key", "newer");
  EXPECT_EQ(cache_.Find("key"), "newer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(CubinCacheTest, EveryDamagedByteIsFound) {
  cache_.Store("key", "cubin");
  const std::string whole = Bytes();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    Write(damaged);
    EXPECT_EQ(cache_.Find("key"), std::nullopt) << "byte " << i;
    Write(whole.substr(0, i));
    EXPECT_EQ(cache_.Find("key"), std::nullopt) << "cut at " << i;
  }
  Write(whole + "x");
  EXPECT_EQ(cache_.Find("key"), std::nullopt);
  Write(whole);
  EXPECT_EQ(cache_.Find("key"), "cubin");
}

TEST_F(CubinCacheTest, FilesOfAnotherProgramOrOpenToOthersAreIgnored) {
  cache_.Store("key", "cubin");
  cache_.Store("other", "another");
  std::filesystem::copy_file(cache_.PathOf("other"), cache_.PathOf("key"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(cache_.Find("key"), std::nullopt);
  cache_.Store("key", "cubin");
  chmod(cache_.PathOf("key").c_str(), 0620);
  EXPECT_EQ(cache_.Find("key"), std::nullopt);
  chmod(cache_.PathOf("key").c_str(), 0600);
  EXPECT_EQ(cache_.Find("key"), "cubin");
  std::filesystem::remove(cache_.PathOf("key"));
  std::filesystem::create_symlink(cache_.PathOf("other"), cache_.PathOf("key"));
  EXPECT_EQ(cache_.Find("key"), std::nullopt);
  chmod(folder_.c_str(), 0770);
  std::filesystem::remove(cache_.PathOf("key"));
  cache_.Store("key", "cubin");
  EXPECT_EQ(cache_.Find("key"), std::nullopt);
}

TEST_F(CubinCacheTest, TheLogSaysWhyAFileIsIgnored) {
  EXPECT_EQ(ReasonToIgnore(), "");  // there is none
  cache_.Store("key", "cubin");
  const std::string whole = Bytes(), path = "ignored: " + cache_.PathOf("key") + " ";
  Write("");
  EXPECT_EQ(ReasonToIgnore(), path + "is no cache file");
  Write(whole.substr(0, 20));
  EXPECT_EQ(ReasonToIgnore(), path + "is no cache file");
  Write(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(ReasonToIgnore(), path + "is corrupt");
  Write(whole.substr(0, whole.size() - 1) + "x");
  EXPECT_EQ(ReasonToIgnore(), path + "is corrupt");
  cache_.Store("other", "another");
  std::filesystem::rename(cache_.PathOf("other"), cache_.PathOf("key"));
  EXPECT_EQ(ReasonToIgnore(), path + "is of another program");
  cache_.Store("key", "cubin");
  chmod(cache_.PathOf("key").c_str(), 0602);
  EXPECT_EQ(ReasonToIgnore(), path + "is not this user's own");
}

TEST_F(CubinCacheTest, AnotherUsersFileIsIgnored) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  cache_.Store("key", "cubin");
  ASSERT_EQ(chown(cache_.PathOf("key").c_str(), 12345, 12345), 0);
  EXPECT_EQ(ReasonToIgnore(), "ignored: " + cache_.PathOf("key") + " is not this user's own");
}

TEST_F(CubinCacheTest, NothingIsKeptInAnotherUsersFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  cache_.Store("key", "cubin");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(CubinCacheTest, EightThreadsStoreAndFind) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        cache_.Store("key", std::string(1000, 'x'));
        const auto found = cache_.Find("key");
        EXPECT_EQ(found, std::string(1000, 'x'));
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace framefuse::cuda
