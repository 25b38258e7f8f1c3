// Sizes that are equal by a fact are one expression afterwards, and a graph without its integer symbols is the one that
// would have been recorded for their values.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/graph/dim_algebra.h"
#include "backends/graph/equal_sizes.h"
#include "backends/graph/sized_graph.h"

namespace framefuse::ir {
namespace {

constexpr char kTwoSizes[] = R"(graph "g"
symbol s0 = 6 min=1
symbol s1 = 3 min=1
input %0: f32[s0] argument "x"
input %1: f32[s1, 2] argument "y"
%2: f32[s1*2] = aten.view(%1, [s1*2])
output %2 user
)";

Graph Parsed(const char* text) {
  absl::StatusOr<Graph> g = Parse(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return *std::move(g);
}

TEST(JoinEqualSizes, KnowsOneOfTwoEqualSizes) {
  Graph g = Parsed(kTwoSizes);
  const Dim s0 = g.exprs.OfSymbol(0), twice = g.exprs.Make(ExprKind::kMul, g.exprs.OfSymbol(1), Dim(2));
  ASSERT_NE(g.value(0).sizes[0], g.value(2).sizes[0]);
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, s0, twice)});
  EXPECT_EQ(g.value(0).sizes[0], g.value(2).sizes[0]);
  EXPECT_EQ(g.exprs.Print(g.value(0).sizes[0]), "s1*2");
}

TEST(JoinEqualSizes, PinnedSizesAreNumbers) {
  Graph g = Parsed(kTwoSizes);
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, g.exprs.OfSymbol(1), Dim(3))});
  EXPECT_EQ(g.value(1).sizes[0], Dim(3));
  EXPECT_EQ(g.value(2).sizes[0], Dim(6));
  EXPECT_TRUE(g.value(0).sizes[0].is_symbolic());
}

TEST(JoinEqualSizes, FactsThatFollowOneAnother) {
  Graph g = Parsed(R"(graph "g"
symbol s0 = 6 min=1
symbol s1 = 6 min=1
symbol s2 = 6 min=1
input %0: f32[s0] argument "x"
input %1: f32[s1] argument "y"
input %2: f32[s2] argument "z"
output %0 user
)");
  const Dim s0 = g.exprs.OfSymbol(0), s1 = g.exprs.OfSymbol(1), s2 = g.exprs.OfSymbol(2);
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, s1, s2), g.exprs.Make(ExprKind::kEq, s0, s1),
                     g.exprs.Make(ExprKind::kLe, s0, Dim(9))});
  EXPECT_EQ(g.value(0).sizes, g.value(1).sizes);
  EXPECT_EQ(g.value(0).sizes, g.value(2).sizes);
  EXPECT_EQ(g.exprs.size(), 1);
}

TEST(JoinEqualSizes, QuotientsAndProductsThatAreNumbersHere) {
  Graph g = Parsed(kTwoSizes);
  const Dim s0 = g.exprs.OfSymbol(0), s1 = g.exprs.OfSymbol(1);
  const Dim half = g.exprs.Make(ExprKind::kFloorDiv, s0, Dim(4)), product = g.exprs.Make(ExprKind::kMul, s0, s1);
  g.value(0).sizes = {half};
  g.value(1).sizes = {DimAlgebra(g.exprs).Add(half, Dim(2))};
  g.value(2).sizes = {product};
  const Dim one_more = DimAlgebra(g.exprs).Add(half, Dim(1));
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, one_more, Dim(2)), g.exprs.Make(ExprKind::kEq, product, Dim(18))});
  EXPECT_EQ(g.value(0).sizes[0], Dim(1));
  EXPECT_EQ(g.value(1).sizes[0], Dim(3));
  EXPECT_EQ(g.value(2).sizes[0], Dim(18));
}

TEST(JoinEqualSizes, QuotientsWhoseDivisorIsKnownLater) {
  Graph g = Parsed(kTwoSizes);
  const Dim s0 = g.exprs.OfSymbol(0), s1 = g.exprs.OfSymbol(1);
  const Dim pieces = DimAlgebra(g.exprs).FloorDivide(DimAlgebra(g.exprs).Subtract(s0, Dim(3)), s1);
  g.value(0).sizes = {pieces};
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, pieces, Dim(1)), g.exprs.Make(ExprKind::kEq, s1, Dim(3))});
  EXPECT_EQ(g.value(0).sizes[0], Dim(1));
}

// What is known of products names expressions: those of one table say nothing in the next.
TEST(JoinEqualSizes, SumsBesideProductsThatAreNumbers) {
  Graph g = Parsed(R"(graph "g"
symbol s0 = 3 min=1
symbol u1 = 10 unbacked=1
symbol u2 = 25 unbacked=1
symbol u3 = 25 unbacked=1
symbol u4 = 13 unbacked=1
symbol u5 = 16 unbacked=1
symbol u6 = 31 unbacked=1
symbol u7 = 20 unbacked=1
symbol u8 = 22 unbacked=1
symbol u9 = 18 unbacked=1
input %0: f32[s0] argument "x"
output %0 user
)");
  std::vector<Dim> facts;
  const auto fact = [&](Dim a, Dim b) { facts.push_back(g.exprs.Make(ExprKind::kEq, a, b)); };
  const auto times = [&](int n) { return g.exprs.Make(ExprKind::kMul, g.exprs.OfSymbol(0), Dim(n)); };
  const auto sum = [&](SymbolIndex first) {
    const Dim two = g.exprs.Make(ExprKind::kAdd, g.exprs.OfSymbol(first), g.exprs.OfSymbol(first + 1));
    return g.exprs.Make(ExprKind::kAdd, g.exprs.OfSymbol(first + 2), two);
  };
  fact(sum(1), times(20));
  for (const int n : {2560, 20, 160, 80, 1280, 10}) fact(times(n), Dim(n * 3));
  for (const SymbolIndex first : {4, 7}) fact(sum(first), Dim(60));
  for (const SymbolIndex last : {3, 6, 9}) g.value(0).sizes.push_back(g.exprs.OfSymbol(last));
  JoinEqualSizes(g, facts);
  std::vector<std::int64_t> hints;
  for (const Dim d : g.value(0).sizes) hints.push_back(g.exprs.Hint(d));
  EXPECT_EQ(hints, (std::vector<std::int64_t>{3, 25, 31, 18}));
}

TEST(JoinEqualSizes, SizesOfInputsDoNotWaitForWhatTheGraphComputes) {
  Graph g = Parsed(R"(graph "g"
symbol s0 = 6 min=1
symbol u1 = 3 unbacked=1
symbol u2 = 6 unbacked=1
input %0: f32[s0] argument "x"
input %1: f32[u1] argument "y"
input %2: f32[u2] argument "z"
output %0 user
)");
  const Dim s0 = g.exprs.OfSymbol(0), u1 = g.exprs.OfSymbol(1), u2 = g.exprs.OfSymbol(2);
  const Dim twice = g.exprs.Make(ExprKind::kMul, u1, Dim(2)), half = g.exprs.Make(ExprKind::kFloorDiv, s0, Dim(2));
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, s0, twice), g.exprs.Make(ExprKind::kEq, half, u1),
                     g.exprs.Make(ExprKind::kEq, s0, u2)});
  EXPECT_EQ(g.exprs.Print(g.value(0).sizes[0]), "s0");
  EXPECT_EQ(g.exprs.Print(g.value(1).sizes[0]), "s0 // 2");
  EXPECT_EQ(g.exprs.Print(g.value(2).sizes[0]), "s0");
}

TEST(JoinEqualSizes, WhatTheRangesLeaveOneValueIsANumber) {
  Graph g = Parsed(R"(graph "g"
symbol s0 = 6 min=4 max=7
input %0: f32[s0] argument "x"
output %0 user
)");
  g.value(0).sizes = {g.exprs.Make(ExprKind::kFloorDiv, g.exprs.OfSymbol(0), Dim(4))};
  JoinEqualSizes(g, {});
  EXPECT_EQ(g.value(0).sizes[0], Dim(1));
}

TEST(JoinEqualSizes, WhatDoesNotHoldForAllValuesStaysTwo) {
  Graph g = Parsed(kTwoSizes);
  const Dim s0 = g.exprs.OfSymbol(0), s1 = g.exprs.OfSymbol(1);
  const Dim squares = g.exprs.Make(ExprKind::kMul, s0, s0);
  JoinEqualSizes(g, {g.exprs.Make(ExprKind::kEq, squares, g.exprs.Make(ExprKind::kMul, s1, Dim(12)))});
  EXPECT_NE(g.value(0).sizes[0], g.value(2).sizes[0]);
}

TEST(WithSizes, FloatsStayAndIntegersBecomeNumbers) {
  Graph g = Parsed(kTwoSizes);
  Symbol rate;
  rate.name = "f0";
  rate.type = NumberType::kFloat;
  const Dim f0 = g.exprs.OfSymbol(g.exprs.AddSymbol(rate)), s1 = g.exprs.OfSymbol(1);
  const Dim both = g.exprs.Make(ExprKind::kMul, f0, s1), only_size = g.exprs.Make(ExprKind::kTrueDiv, s1, Dim(4));
  for (const Dim number : {both, only_size}) {
    Node n;
    n.op = RequireOp("aten.mul.Scalar");
    n.args = {Arg::OfValue(2), Arg::OfDim(number)};
    n.outputs = {g.AddValue(g.value(2))};
    g.nodes.push_back(n);
  }
  const Graph sized = WithSizes(g, {8, 4, 0});
  EXPECT_EQ(sized.value(0).sizes[0], Dim(8));
  EXPECT_EQ(sized.value(2).sizes[0], Dim(8));
  const Arg& scaled = sized.nodes[1].args[1];
  ASSERT_EQ(scaled.kind, Arg::Kind::kDim);
  EXPECT_EQ(sized.exprs.Print(scaled.dims[0]), "f0*4");
  ASSERT_EQ(sized.nodes[2].args[1].kind, Arg::Kind::kConstant);
  EXPECT_EQ(sized.nodes[2].args[1].constant.toDouble(), 1.0);
}

TEST(DimAlgebra, SolvesForASymbolThatStandsAlone) {
  ExprTable table;
  Symbol s;
  s.min = 1;
  const Dim a = table.OfSymbol(table.AddSymbol(s)), b = table.OfSymbol(table.AddSymbol(s));
  DimAlgebra algebra(table);
  const auto solved = algebra.Solve(algebra.Subtract(algebra.Multiply(a, Dim(4)), b));
  ASSERT_TRUE(solved.has_value());
  EXPECT_EQ(solved->first, 1);
  EXPECT_EQ(solved->second, algebra.Multiply(a, Dim(4)));
  const Dim remainder = algebra.Modulo(b, Dim(7));
  EXPECT_FALSE(algebra.Solve(algebra.Add(algebra.Multiply(a, Dim(2)), remainder)).has_value());
  EXPECT_FALSE(algebra.Solve(algebra.Subtract(b, remainder)).has_value());  // b is in the remainder, too
}

}  // namespace
}  // namespace framefuse::ir
