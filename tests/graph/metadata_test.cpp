// Metadata recomputed (ir::VerifyMetadata) and what functionalize says of results that lie in memory in another way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/graph/graph.h"
#include "backends/passes/pass.h"
#include "common/status.h"

namespace framefuse::ir {
namespace {

using ::testing::HasSubstr;

std::string Verified(const std::string& text, bool strides_too = true) {
  absl::StatusOr<Graph> g = Parse(text);
  if (!g.ok()) return MessageOf(g.status());
  const absl::Status s = VerifyMetadata(*g, strides_too);
  return s.ok() ? "ok" : MessageOf(s);
}

// A graph of one operator with these results and arguments.
std::string Graph1(const std::string& result, const std::string& call) {
  return R"(graph "g" functional
symbol s0 = 16 min=2 max=4096
input %0: f32[s0, 4] argument
input %1: f32[4, 3]{strides=[1, 4]} argument
constant %2: i64[]{wrapped} = [1]
%3: )" + result +
         " = " + call + "\noutput %3 user\n";
}

TEST(Metadata, IsWhatTheOperatorMakes) {
  EXPECT_EQ(Verified(Graph1("f32[s0, 3]", "aten.mm(%0, %1)")), "ok");
  EXPECT_EQ(Verified(Graph1("f32[4, 3]{strides=[1, 4]}", "aten.sin(%1)")), "ok");
  EXPECT_EQ(Verified(Graph1("f32[4, 3]", "aten.cumsum(%1, 0)")), "ok");
  EXPECT_EQ(Verified(Graph1("f32[s0, 4]", "aten.add.Tensor(%0, %2)")), "ok");
  EXPECT_EQ(Verified(Graph1("i64[3]", "aten.argmax(%1, 0)")), "ok");
  EXPECT_EQ(Verified(Graph1("f32[3, 4]", "aten.t(%1)")), "ok");
}

TEST(Metadata, OfAnotherSizeDtypeOrLayoutIsToldOf) {
  EXPECT_THAT(Verified(Graph1("f32[s0, 4]", "aten.mm(%0, %1)")),
              HasSubstr("node 0 (aten.mm): result 0 has sizes 16, 4; recomputed: 16, 3"));
  EXPECT_THAT(Verified(Graph1("f64[4, 3]{strides=[1, 4]}", "aten.sin(%1)")),
              HasSubstr("result 0 has dtype Double; recomputed: Float"));
  const std::string laid_out = Graph1("f32[4, 3]{strides=[1, 4]}", "aten.cumsum(%1, 0)");
  EXPECT_THAT(Verified(laid_out), HasSubstr("result 0 has strides 1, 4; recomputed: 3, 1"));
  EXPECT_EQ(Verified(laid_out, false), "ok");
}

TEST(Metadata, ArgumentsThatAreRefusedAreToldOf) {
  EXPECT_THAT(Verified(Graph1("f32[4, 4]", "aten.mm(%1, %1)")), HasSubstr("node 0 (aten.mm): mat1 and mat2"));
}

// What an operator lays out row by row and is written into a transposed tensor keeps that one's strides.
TEST(Metadata, SurvivesFunctionalize) {
  absl::StatusOr<Graph> g = Parse(R"(graph "g"
input %0: f32[4, 3]{strides=[1, 4]} argument
%1: f32[4, 3]{strides=[1, 4], storage=0} = aten.sin(%0)
aten.cumsum_(%1, 0)
%2: f32[3, 4]{storage=0} = aten.t(%1)
aten.cumprod_(%2, 0)
output %1 user
)");
  ASSERT_TRUE(g.ok()) << g.status();
  ASSERT_TRUE(Functionalize(*g).ok());
  EXPECT_TRUE(VerifyMetadata(*g).ok()) << VerifyMetadata(*g);
  EXPECT_EQ(g->value(g->outputs[0].value).strides, (std::vector<Dim>{1, 4}));
}

}  // namespace
}  // namespace framefuse::ir
