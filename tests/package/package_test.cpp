// Packages as files and as they run, through C++: what is damaged, what does not fit.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/package/arrange_inputs.h"
#include "backends/package/loaded_package.h"
#include "backends/package/safetensors.h"
#include "common/sha256.h"
#include "common/status.h"
#include "tests/package/small_package.h"

namespace framefuse {
namespace {

class PackageTest : public testing::Test {
 protected:
  PackageTest() : path_(absl::StrCat(testing::TempDir(), "/package_test_", getpid())) {}
  ~PackageTest() override { std::remove(path_.c_str()); }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Put(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string WhyNotLoaded() const {
    const auto loaded = LoadedPackage::Load(path_, "");
    return loaded.ok() ? "" : MessageOf(loaded.status());
  }

  std::string path_;
};

std::string WhyNotRun(const LoadedPackage& package, const at::Tensor& x) {
  const auto made = package.Run({x});
  return made.ok() ? "" : MessageOf(made.status());
}

TEST_F(PackageTest, WhatWasWrittenRuns) {
  const absl::StatusOr<std::string> sha256 = WritePackage(path_, Small());
  ASSERT_TRUE(sha256.ok()) << sha256.status();
  EXPECT_EQ(*sha256, HexOf(Sha256().Add(Bytes()).Finish()));
  const auto loaded = LoadedPackage::Load(path_, *sha256);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const std::int64_t rows : {4, 7, 1, 7, 7, 7, 7}) {
    const at::Tensor x = at::full({rows, 3}, 0.25);
    const auto made = (*loaded)->Run({x});
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE((*made)[0].allclose(Expected(x)));
  }
}

TEST_F(PackageTest, ArgumentsThatDoNotFitAreNamed) {
  const auto loaded = LoadedPackage::Create(Small());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({2, 4})), "x: expected f32[s0, 3], given f32[2, 4]: size 1 is 4, not 3");
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({2, 3}, at::kLong)),
            "x: expected f32[s0, 3], given i64[2, 3]: it is not of f32");
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({3})), "x: expected f32[s0, 3], given f32[3]: it has 1 dimensions, not 2");
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({3, 2}).t()),
            "x: expected f32[s0, 3], given f32[2, 3]: its strides are [1, 2], not [3, 1]");
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({9, 3})),
            "the package serves sizes with s0 < 9 only; given: s0 = 9, size 0 of x");
  EXPECT_NE(WhyNotRun(**loaded, at::ones({0, 3})).find("size 0 is 0, and s0 is at least 1"), std::string::npos);
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({2, 3})._neg_view()),
            "x: expected f32[s0, 3], given a tensor that is not dense and plain");
  EXPECT_EQ(MessageOf((*loaded)->Run({}).status()), "the package takes 1 tensors, 0 were given");
  // A size of one may have any stride.
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({3, 1}).t()), "");
}

TEST_F(PackageTest, TheDefaultDtypeIsThatOfTheExport) {
  Package package = Small();
  package.texts[package_texts::kDefaultDtype] = "f64";
  const auto loaded = LoadedPackage::Create(std::move(package));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(WhyNotRun(**loaded, at::ones({2, 3})),
            "torch's default dtype is f32, and was f64 when the package was exported");
}

TEST_F(PackageTest, EachDamagedByteIsFound) {
  ASSERT_TRUE(WritePackage(path_, Small()).ok());
  const std::string whole = Bytes();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    Put(bytes);
    ASSERT_NE(WhyNotLoaded().find("damaged"), std::string::npos) << "byte " << i;
  }
  for (std::size_t length = 0; length < whole.size(); length += 3) {
    Put(whole.substr(0, length));
    ASSERT_NE(WhyNotLoaded().find("is not loaded"), std::string::npos) << length << " bytes";
  }
  Put(whole + "x");
  EXPECT_NE(WhyNotLoaded(), "");
}

TEST_F(PackageTest, TextsThatDoNotFitAreRefused) {
  const auto why = [](const char* text, const std::string& is) {
    Package package = Small();
    package.texts[text] = is;
    const auto made = LoadedPackage::Create(std::move(package));
    return made.ok() ? std::string() : MessageOf(made.status());
  };
  EXPECT_NE(why(package_texts::kGraph, "graph \"a\"\n%0: f32[] = aten.nothing(1)\n"), "");
  EXPECT_NE(why(package_texts::kSymbols, ""), "");
  EXPECT_NE(why(package_texts::kSymbols, "s0 0 7"), "");
  EXPECT_NE(why(package_texts::kSymbols, "s0 1 0"), "");
  EXPECT_NE(why(package_texts::kFacts, "s0 +"), "");
  EXPECT_NE(why(package_texts::kFacts, "s0 + 1"), "");
  EXPECT_NE(why(package_texts::kFacts, "s1 < 4"), "");
  EXPECT_NE(why(package_texts::kGuessed, "9"), "");
  EXPECT_NE(why(package_texts::kResults, "1"), "");
  Package package = Small();
  package.weights.clear();
  EXPECT_EQ(MessageOf(LoadedPackage::Create(package).status()), "its weight bias does not fit");
  package.weights.emplace("bias", at::ones({4}));
  EXPECT_EQ(MessageOf(LoadedPackage::Create(package).status()), "its weight bias has other sizes");
}

TEST_F(PackageTest, HeadersThatLieAreRefused) {
  const auto why = [](const std::string& tensors, std::uint64_t bytes) {
    return MessageOf(ReadHeader("{\"__metadata__\":{}," + tensors + "}", bytes).status());
  };
  EXPECT_EQ(why(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(why(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 9), "");
  EXPECT_NE(why(R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(why(R"("a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(why(R"("a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0), "");
  EXPECT_NE(why(R"("a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(why(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]})", 16), "");
  EXPECT_NE(why(R"("a":7)", 0), "");
}

TEST_F(PackageTest, InputsGetTheirPlaces) {
  const char* text =
      "graph \"test\"\n"
      "input %0: f32[3] parameter \"w\"\n"
      "input %1: f32[4, 3] argument \"L['x']\"\n"
      "%2: f32[3, 4] = aten.t(%1)\n"
      "%3: f32[4, 3] = aten.mul.Tensor(%1, %0)\n"
      "output %2 user view_of_input=1\n"
      "output %3 user\n";
  const absl::StatusOr<std::string> arranged = ArrangeInputs(
      text, {{1, {}, {}, false, "x"}, {-1, at::ones({2}), {}, false, "unread"}, {0, {}, {}, true, "w"}}, {1});
  ASSERT_TRUE(arranged.ok()) << arranged.status();
  EXPECT_EQ(*arranged,
            "graph \"test\"\n"
            "input %0: f32[4, 3] argument \"x\"\n"
            "input %1: f32[2] argument \"unread\"\n"
            "input %2: f32[3] parameter \"w\"\n"
            "%3: f32[3, 4] = aten.t(%0)\n"
            "%4: f32[4, 3] = aten.mul.Tensor(%0, %2)\n"
            "output %3 user view_of_input=0\n"
            "output %4 user\n"
            "output %1 user input=1\n");
  EXPECT_FALSE(ArrangeInputs(text, {{1, {}, {}, false, "x"}}, {}).ok());
  EXPECT_FALSE(ArrangeInputs(text, {{1, {}, {}, false, "x"}, {1, {}, {}, false, "y"}}, {}).ok());
}

}  // namespace
}  // namespace framefuse
