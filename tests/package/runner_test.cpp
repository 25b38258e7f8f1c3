// The C header. A program of its own: libframefuse_run has its own copy of all that packages are run with, and torch
// takes one copy's operators only.
#include "runner/framefuse_run.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/package/small_package.h"

namespace framefuse {
namespace {

TEST(RunnerTest, RunsAndSaysWhatIsWrong) {
  const std::string path = absl::StrCat(testing::TempDir(), "/runner_test_", getpid());
  ASSERT_TRUE(WritePackage(path, Small()).ok());
  EXPECT_EQ(framefuse_load("/nowhere/at/all", nullptr), nullptr);
  EXPECT_STREQ(framefuse_last_error(), "/nowhere/at/all: No such file or directory");
  EXPECT_EQ(framefuse_load(path.c_str(), "00"), nullptr);
  EXPECT_NE(std::string(framefuse_last_error()).find("its SHA-256 is"), std::string::npos);
  framefuse_package* package = framefuse_load(path.c_str(), nullptr);
  ASSERT_NE(package, nullptr) << framefuse_last_error();
  EXPECT_EQ(framefuse_argument_count(package), 1);
  EXPECT_EQ(framefuse_result_count(package), 1);
  EXPECT_STREQ(framefuse_argument_name(package, 0), "x");
  EXPECT_EQ(framefuse_argument_name(package, 1), nullptr);
  EXPECT_STREQ(framefuse_signature(package),
               "argument x: f32[s0, 3]\nresult: f32[s0, 3]\nsize s0: size 0 of x, at least 1\nsizes with s0 < 9\n");
  at::Tensor x = at::full({5, 3}, 0.5);
  framefuse_tensor given{x.mutable_data_ptr(), FRAMEFUSE_F32, 2, x.sizes().data(), nullptr, -1};
  framefuse_results* results = framefuse_run(package, &given, 1);
  ASSERT_NE(results, nullptr) << framefuse_last_error();
  const framefuse_tensor* result = framefuse_result(results, 0);
  ASSERT_EQ(result->rank, 2);
  EXPECT_EQ(result->sizes[0], 5);
  EXPECT_FLOAT_EQ(static_cast<const float*>(result->data)[0], Expected(x)[0][0].item<float>());
  EXPECT_EQ(framefuse_result(results, 1), nullptr);
  framefuse_free_results(results);
  given.dtype = FRAMEFUSE_F64;
  EXPECT_EQ(framefuse_run(package, &given, 1), nullptr);
  EXPECT_STREQ(framefuse_last_error(), "x: expected f32[s0, 3], given f64[5, 3]: it is not of f32");
  given.rank = -1;
  EXPECT_EQ(framefuse_run(package, &given, 1), nullptr);
  EXPECT_EQ(framefuse_run(package, nullptr, 0), nullptr);
  EXPECT_STREQ(framefuse_last_error(), "the package takes 1 tensors, 0 were given");
  framefuse_free(package);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace framefuse
