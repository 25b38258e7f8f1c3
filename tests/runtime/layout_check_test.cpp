// What operators gave, compared with what a graph says of it (backends/runtime/layout_check.h).
#include "backends/runtime/layout_check.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "backends/runtime/aten_sequence.h"
#include "common/config.h"
#include "common/status.h"

namespace framefuse {
namespace {

// sin() of a tensor that is transposed is transposed, too.
std::string Text(const char* strides) {
  return std::string(
             "graph \"layouts\" functional\ninput %x: f32[4, 4] argument\n"
             "%t: f32[4, 4]{strides=[1, 4]} = aten.t(%x)\n%s: f32[4, 4]{strides=") +
         strides + "} = aten.sin(%t)\n%y: f32[4, 4]{strides=" + strides + "} = aten.cos(%s)\noutput %y user\n";
}

absl::Status RunOf(absl::StatusOr<std::unique_ptr<Executable>> made) {
  if (!made.ok()) return made.status();
  const at::Tensor input = at::randn({4, 4});
  at::Tensor output;
  return (*made)->Run({&input, 1}, {}, {&output, 1});
}

class LayoutCheck : public ::testing::Test {
 protected:
  void SetUp() override { config().verify_metadata.set(true); }
  void TearDown() override { config().verify_metadata.set(before_); }
  static ir::Graph GraphOf(const char* strides) { return *ir::Parse(Text(strides)); }

 private:
  const bool before_ = config().verify_metadata;
};

TEST_F(LayoutCheck, AGraphThatSaysHowItIs) {
  EXPECT_TRUE(RunOf(AtenSequence::Create(GraphOf("[1, 4]"), BackendOptions())).ok());
}

TEST_F(LayoutCheck, AGraphThatPromisesOtherStrides) {
  const absl::Status status = RunOf(AtenSequence::Create(GraphOf("[4, 1]"), BackendOptions()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(MessageOf(status), "aten.sin: %2 has sizes [4, 4] and strides [1, 4]")) << status;
}

TEST_F(LayoutCheck, ARewrittenGraphPromisesNothing) {
  EXPECT_TRUE(RunOf(AtenSequence::CreateRewritten(GraphOf("[4, 1]"))).ok());
}

TEST_F(LayoutCheck, OnlyWhereItIsAskedFor) {
  config().verify_metadata.set(false);
  EXPECT_TRUE(RunOf(AtenSequence::Create(GraphOf("[4, 1]"), BackendOptions())).ok());
}

}  // namespace
}  // namespace framefuse
