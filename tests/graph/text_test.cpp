// The text form: what is printed parses back and prints the same; what is wrong is refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/graph/graph.h"
#include "common/status.h"

namespace framefuse::ir {
namespace {

using ::testing::HasSubstr;

std::string RoundTrip(const std::string& text) {
  absl::StatusOr<Graph> g = Parse(text);
  if (!g.ok()) return MessageOf(g.status());
  return Print(*g);
}

std::string ParseError(const std::string& text) {
  absl::StatusOr<Graph> g = Parse(text);
  return g.ok() ? "no error" : MessageOf(g.status());
}

class CanonicalText : public ::testing::TestWithParam<const char*> {};

TEST_P(CanonicalText, PrintsAsItWasWritten) { EXPECT_EQ(RoundTrip(GetParam()), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Text, CanonicalText,
                         ::testing::Values(
                             R"(graph "add" functional
symbol s0 = 16 min=2 max=4096 divisor=8
input %0: f32[s0, 1024] argument "x"
input %1: f32[1024]{grad} parameter "self.weight"
%2: f32[s0, 1024] = aten.add.Tensor(%0, %1, alpha=1)  # model.py:12 in forward: x + self.weight  <torch.add>
output %2 user grad
)",
                             R"(graph "symbolic"
symbol s0 = 3
symbol s1 = 4 max=9
symbol f0: float = 0.5
symbol b0: bool = True
input %0: f32[s0, s1]{strides=[1, s0]} argument
%1: f32[s0*s1] = aten.reshape(%0, [s0*s1])
%2: f32[s0*s1 + 1] = aten.constant_pad_nd(%1, [0, (s0 + s1) // 7], 0)
%3: f32[s0*s1 + 1] = aten.mul.Scalar(%2, f0)
%4: f32[s0*s1 + 1] = aten.mul.Scalar(%3, f0*2.5 + 1.0)
output %4 user
)",
                             R"(graph "passes" functional
input %0: f32[2]{grad} argument
input %1: f32[2] tangent of=0
input %2: f32[2] tangent of=1
%3: f32[2] = aten.sin(%0)
%4: f32[2] = aten.neg(%3)
backward
%5: f32[2] = aten.neg(%2)
%6: f32[2] = aten.add.Tensor(%1, %5, alpha=1)
%7: f32[2] = aten.cos(%0)
%8: f32[2] = aten.mul.Tensor(%6, %7)
output %3 user grad turns=[1]
output %4 user grad turns=[0]
output %8 gradient=0 turns=[0,-1]
output %6 gradient_of_output=0
)",
                             R"(graph "lists"
input %0: f32[6, 2] argument
input %1: i64[3] argument
[%2: f32[3, 2]{storage=0}, _, %3: f32[1, 2]{offset=10, storage=0}] = aten.split_with_sizes(%0, [3, 2, 1], 0)
%4: f32[6, 3] = aten.index.Tensor(%0, [None, %1])
%5: f32[6], %6: i64[6] = aten.max.dim(%0, 1, False)
_, %7: i64[6] = aten.min.dim(%0, 1, False)
output %2 user
output %3 user view_of_input=0
output %4 user
output _ user
output %6 user
)",
                             R"(graph "constants"
constant %0: f32[2, 2] = [1.0, -2.5, inf, 0.25]
constant %1: f64[]{wrapped} = [0.1]
constant %2: bool[2] = [True, False]
constant %3: i64[1] = [-9223372036854775807]
constant %4: c64[1] = [complex(1.0, -2.0)]
%5: f32[2, 2] = aten.mul.Tensor(%0, %1)
%6: bf16[2, 2]{device=cuda:1} = aten._to_copy(%5, dtype=bf16, device=cuda:1, non_blocking=False, memory_format=contiguous_format)
%7: f32[3]{device=cuda:0} = aten.full([3], -0.0, dtype=f32, layout=strided, device=cuda, pin_memory=False)
%8: f32[2, 2] = aten.gelu(%5, approximate="tanh")
%9: f32[1, 1, 4, 6] = aten.upsample_nearest2d.vec(%0, None, [2.0, 3.0])
output %6 user
)",
                             R"(graph "joint" functional
input %0: f32[4]{grad} argument "x"
input %1: f32[4] buffer "running" mutated=1 without_grad uncounted overlap=2
input %2: f32[4] tangent of=0
%3: f32[4] = aten.sin(%0)
%4: f32[4] = aten.add.Tensor(%1, %0, alpha=1)
backward
%5: f32[4] = aten.cos(%0)
%6: f32[4] = aten.mul.Tensor(%2, %5)
output %3 user grad
output %4 mutated_input=1
output %6 gradient=0
)",
                             R"(graph "numbers"
input %0: f32[2, 8, 4, 16] argument
%1: f32[2, 8, 4, 16], %2: f32[2, 8, 4], _, _, %3: int, %4: int, _, _, _ = aten._scaled_dot_product_flash_attention(%0, %0, %0, 0.0, False, False)
output %1 user
)",
                             R"(graph "in place"
input %0: f32[4] argument mutated
aten.add_.Tensor(%0, %0, alpha=2)
output %0 user input=0
)"));

TEST(Text, DefaultsAreFilledIn) {
  EXPECT_THAT(
      RoundTrip(
          "input %x: f32[2] argument\n%y: f32[] = aten.sum(%x)\n%z: f32[2] = aten.add.Tensor(%x, %x)\noutput %z user"),
      HasSubstr("%2: f32[2] = aten.add.Tensor(%0, %0, alpha=1)"));
}

TEST(Text, ErrorsNameTheLineAndTheReason) {
  EXPECT_THAT(ParseError("input %0: f32[2] argument\n%1: f32[2] = aten.nothing(%0)"),
              HasSubstr("line 2: no such operator: aten.nothing"));
  EXPECT_THAT(ParseError("input %0: f99[2] argument"), HasSubstr("line 1: unknown dtype f99"));
  EXPECT_THAT(ParseError("input %0: f32[2] argument\n%1: f32[2] = aten.sin(%7)"),
              HasSubstr("line 2: undefined value at '7'"));
  EXPECT_THAT(ParseError("input %0: f32[2] argument\n%0: f32[2] = aten.sin(%0)"), HasSubstr("%0 is defined twice"));
  EXPECT_THAT(ParseError("input %0: f32[2] argument\n%1: f32[2] = aten.add.Tensor(%0)"),
              HasSubstr("argument other is missing"));
  EXPECT_THAT(ParseError("input %0: f32[2] argument\n%1: f32[2] = aten.sin(%0, %0)"), HasSubstr("too many arguments"));
  EXPECT_THAT(ParseError("input %0: f32[s9] argument"), HasSubstr("unknown symbol at 's9'"));
  EXPECT_THAT(ParseError("input %0: f32[2] argument \"x"), HasSubstr("string without end"));
}

TEST(Verify, RefusesBrokenGraphs) {
  absl::StatusOr<Graph> parsed =
      Parse("input %0: f32[2] argument\n%1: f32[2] = aten.sin(%0)\n%2: f32[2] = aten.cos(%1)\noutput %2 user");
  ASSERT_TRUE(parsed.ok());
  auto broken = [&](auto change) {
    Graph g = *parsed;
    change(g);
    absl::Status s = Verify(g);
    return s.ok() ? std::string("no error") : MessageOf(s);
  };
  EXPECT_THAT(broken([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }),
              HasSubstr("node 0 (aten.cos): argument self: value 1 is used before its definition"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[1].outputs[0] = 1; }), HasSubstr("value 1 is defined twice"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[0].args.clear(); }), HasSubstr("has 0 arguments, its schema 1"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[0].args[0] = Arg::Constant(3); }),
              HasSubstr("argument self has the wrong kind"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[0].outputs.clear(); }), HasSubstr("has 0 outputs, its schema 1"));
  EXPECT_THAT(broken([](Graph& g) { g.nodes[0].phase = Phase::kBackward; }),
              HasSubstr("forward node after a backward node"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0].value = 9; }), HasSubstr("output 0: value id is out of range"));
  EXPECT_THAT(broken([](Graph& g) { g.outputs[0].alias = OutputAlias::kInput; }), HasSubstr("alias_of is no input"));
  EXPECT_THAT(broken([](Graph& g) {
                g.inputs[0].mutated = true;
                g.functional = true;
              }),
              HasSubstr("must give a mutated input's new value"));
  EXPECT_THAT(broken([](Graph& g) {
                g.nodes[0].op = RequireOp("aten.sin_");
                g.functional = true;
              }),
              HasSubstr("writes an argument in a functional graph"));
}

TEST(Exprs, SimplifyAndEvaluate) {
  ExprTable t;
  Dim s = t.OfSymbol(t.AddSymbol({"s", NumberType::kInt, 7}));
  Dim r = t.OfSymbol(t.AddSymbol({"r", NumberType::kInt, -3}));
  EXPECT_EQ(t.Make(ExprKind::kMul, s, Dim(1)), s);
  EXPECT_EQ(t.Make(ExprKind::kAdd, Dim(0), s), s);
  EXPECT_EQ(t.Make(ExprKind::kMul, s, Dim(0)), Dim(0));
  EXPECT_EQ(t.Make(ExprKind::kAdd, s, r), t.Make(ExprKind::kAdd, r, s));
  EXPECT_EQ(t.Print(t.Make(ExprKind::kMul, t.Make(ExprKind::kMul, s, Dim(2)), Dim(3))), "s*6");
  std::int64_t values[] = {7, -3};
  EXPECT_EQ(t.Evaluate(t.Make(ExprKind::kFloorDiv, s, r), values), -3);  // as Python: 7 // -3
  EXPECT_EQ(t.Evaluate(t.Make(ExprKind::kMod, s, r), values), -2);       // 7 % -3
  const Dim third = t.Make(ExprKind::kTrueDiv, r, Dim(2));
  EXPECT_EQ(t.Evaluate(t.Make(ExprKind::kFloor, third), values), -2);
  EXPECT_EQ(t.Evaluate(t.Make(ExprKind::kCeil, third), values), -1);
  EXPECT_EQ(t.Evaluate(t.Make(ExprKind::kRound, third), values), -2);  // the even one
  EXPECT_EQ(t.Print(t.Make(ExprKind::kFloor, t.Make(ExprKind::kSqrt, s))), "floor(sqrt(s))");
  std::vector<std::int64_t> all;
  t.EvaluateAll(values, &all);
  for (ExprId e = 0; e < t.size(); ++e) EXPECT_EQ(all[static_cast<std::size_t>(e)], t.Evaluate(Dim::OfExpr(e), values));
  EXPECT_TRUE(t.EvaluateAll(values, &all));
  (void)t.Make(ExprKind::kToInt, t.Make(ExprKind::kExp, t.Make(ExprKind::kMul, s, Dim(100))));
  EXPECT_FALSE(t.EvaluateAll(values, &all));  // no integer
}

}  // namespace
}  // namespace framefuse::ir
