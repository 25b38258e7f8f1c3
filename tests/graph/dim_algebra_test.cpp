// Normal form, ranges and decisions of sizes; each answer is compared with arithmetic on numbers.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/graph/dim_algebra.h"

namespace framefuse::ir {
namespace {

class Algebra : public ::testing::Test {
 protected:
  Dim Size(const std::string& name, std::int64_t min = 1) {
    Symbol s;
    s.name = name;
    s.hint = 6;
    s.min = min;
    return table.OfSymbol(table.AddSymbol(s));
  }
  std::string Text(Dim d) { return table.Print(d); }

  ExprTable table;
  DimAlgebra algebra{table};
  Dim a = Size("a"), b = Size("b");
};

TEST_F(Algebra, EqualPolynomialsAreOneExpression) {
  const Dim left = algebra.Multiply(algebra.Add(a, b), algebra.Add(a, b));
  const Dim twice = algebra.Multiply(Dim(2), algebra.Multiply(b, a));
  const Dim right = algebra.Add(algebra.Add(algebra.Multiply(a, a), twice), algebra.Multiply(b, b));
  EXPECT_EQ(left, right);
  EXPECT_EQ(algebra.Subtract(left, right), Dim(0));
  EXPECT_EQ(algebra.Add(algebra.Subtract(a, Dim(1)), Dim(1)), a);
}

TEST_F(Algebra, DivisionTakesOutWhatDivides) {
  EXPECT_EQ(algebra.FloorDivide(algebra.Multiply(a, b), a), b);
  EXPECT_EQ(algebra.FloorDivide(algebra.Multiply(a, Dim(12)), Dim(4)), algebra.Multiply(a, Dim(3)));
  EXPECT_EQ(algebra.Modulo(algebra.Multiply(a, Dim(12)), Dim(4)), Dim(0));
  EXPECT_EQ(Text(algebra.FloorDivide(algebra.Multiply(a, b), algebra.Multiply(a, Dim(4)))), "b // 4");
  EXPECT_EQ(Text(algebra.FloorDivide(algebra.Add(algebra.Multiply(a, Dim(4)), Dim(7)), Dim(4))), "a + 1");
}

TEST_F(Algebra, RangesDecide) {
  EXPECT_EQ(algebra.Decide(ExprKind::kLe, Dim(1), a), true);
  EXPECT_EQ(algebra.Decide(ExprKind::kEq, algebra.Multiply(a, b), Dim(0)), false);
  EXPECT_EQ(algebra.Decide(ExprKind::kLt, a, algebra.Add(a, b)), true);
  EXPECT_EQ(algebra.Decide(ExprKind::kEq, a, b), std::nullopt);
  EXPECT_EQ(algebra.Decide(ExprKind::kLt, algebra.Modulo(a, Dim(4)), Dim(4)), true);
  EXPECT_EQ(algebra.Decide(ExprKind::kEq, a, Dim(1)), std::nullopt);
}

TEST_F(Algebra, LinearForms) {
  const auto linear = algebra.AsLinear(algebra.Subtract(Dim(7), algebra.Multiply(b, Dim(2))));
  ASSERT_TRUE(linear.has_value());
  EXPECT_EQ(linear->symbol, 1);
  EXPECT_EQ(linear->factor, -2);
  EXPECT_EQ(linear->rest, 7);
  EXPECT_FALSE(algebra.AsLinear(algebra.Multiply(a, b)).has_value());
}

// Random expressions beside the same arithmetic on numbers, for many values of the symbols.
TEST_F(Algebra, AgreesWithNumbers) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto floor_divide = [](std::int64_t x, std::int64_t y) {
    const std::int64_t q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
  };
  const std::vector<std::vector<std::int64_t>> symbols = {{1, 1}, {6, 6}, {2, 9}, {13, 4}, {1, 30}, {8, 3}};
  for (int round = 0; round < 3000; ++round) {
    std::vector<Dim> dims = {a, b, Dim(pick(5) + 1)};
    std::vector<std::vector<std::int64_t>> values;
    for (const Dim& d : dims) {
      values.emplace_back();
      for (const auto& s : symbols) values.back().push_back(table.Evaluate(d, s));
    }
    for (int step = 0; step < 5; ++step) {
      const auto l = static_cast<std::size_t>(pick(static_cast<int>(dims.size())));
      const auto r = static_cast<std::size_t>(pick(static_cast<int>(dims.size())));
      const int kind = pick(7);
      const bool divides = kind == 3 || kind == 4;
      if (divides && algebra.Lowest(dims[r]).value_or(0) < 1) continue;
      const Dim x = dims[l], y = dims[r];
      dims.push_back(kind == 0   ? algebra.Add(x, y)
                     : kind == 1 ? algebra.Subtract(x, y)
                     : kind == 2 ? algebra.Multiply(x, y)
                     : kind == 3 ? algebra.FloorDivide(x, y)
                     : kind == 4 ? algebra.Modulo(x, y)
                     : kind == 5 ? algebra.Minimum(x, y)
                                 : algebra.Maximum(x, y));
      values.emplace_back();
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const std::int64_t u = values[l][i], v = values[r][i];
        values.back().push_back(kind == 0   ? u + v
                                : kind == 1 ? u - v
                                : kind == 2 ? u * v
                                : kind == 3 ? floor_divide(u, v)
                                : kind == 4 ? u - floor_divide(u, v) * v
                                : kind == 5 ? std::min(u, v)
                                            : std::max(u, v));
        ASSERT_EQ(table.Evaluate(dims.back(), symbols[i]), values.back()[i]) << Text(dims.back());
        ASSERT_LE(algebra.Lowest(dims.back()).value_or(values.back()[i]), values.back()[i]) << Text(dims.back());
        ASSERT_GE(algebra.Highest(dims.back()).value_or(values.back()[i]), values.back()[i]) << Text(dims.back());
        for (const ExprKind comparison : {ExprKind::kEq, ExprKind::kLt, ExprKind::kLe}) {
          const auto decided = algebra.Decide(comparison, dims.back(), x);
          const bool holds = comparison == ExprKind::kEq   ? values.back()[i] == u
                             : comparison == ExprKind::kLt ? values.back()[i] < u
                                                           : values.back()[i] <= u;
          ASSERT_EQ(decided.value_or(holds), holds) << Text(dims.back()) << " and " << Text(x);
        }
      }
    }
  }
}

}  // namespace
}  // namespace framefuse::ir
