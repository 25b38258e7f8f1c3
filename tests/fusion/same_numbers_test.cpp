// Each test of this program starts from one random state: what fails once fails always.
// Without it torch seeds from the clock, and a sum near zero fails a comparison once in a thousand runs.
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace framefuse {
namespace {

class SeedsEachTest : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { at::manual_seed(0); }
};

const bool kInstalled = [] {
  // GoogleTest owns what is appended.
  ::testing::UnitTest::GetInstance()->listeners().Append(std::make_unique<SeedsEachTest>().release());
  return true;
}();

TEST(SameNumbers, AreWhatATestDrawsFirst) {
  const at::Tensor drawn = at::randn({4});
  at::manual_seed(0);
  EXPECT_TRUE(kInstalled);
  EXPECT_TRUE(at::equal(drawn, at::randn({4})));
}

}  // namespace
}  // namespace framefuse
