// Tests of the overlap guard: which storages of the inputs share memory.
#include "guards/leaf/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace framefuse {
namespace {

MemoryRange Range(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t data = 0) {
  return {begin, end, data != 0 ? data : begin};
}

TEST(FindOverlap, ConnectsRangesThroughOthers) {
  const OverlapFact fact = FindOverlap({Range(100, 200), Range(300, 400), Range(150, 320), Range(400, 500)});
  EXPECT_EQ(fact.class_of, (std::vector<std::int32_t>{0, 0, 0, 3}));
  EXPECT_EQ(fact.distance, (std::vector<std::int64_t>{0, 200, 50, 0}));
}

TEST(FindOverlap, ALongRangeCoversLaterOnes) {
  const OverlapFact fact = FindOverlap({Range(500, 510), Range(100, 1000), Range(200, 210), Range(2000, 2010)});
  EXPECT_EQ(fact.class_of, (std::vector<std::int32_t>{0, 0, 0, 3}));
}

TEST(FindOverlap, NoMemoryOverlapsNothing) {
  const OverlapFact fact = FindOverlap({Range(0, 0), Range(0, 0), Range(100, 200), {}});
  EXPECT_EQ(fact.class_of, (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST(FindOverlap, TheDistanceOfViewsIsPartOfTheFact) {
  EXPECT_EQ(FindOverlap({Range(100, 200, 110), Range(100, 200, 150)}),
            FindOverlap({Range(500, 600, 500), Range(500, 600, 540)}));
  EXPECT_NE(FindOverlap({Range(100, 200, 110), Range(100, 200, 150)}),
            FindOverlap({Range(100, 200, 110), Range(100, 200, 154)}));
}

// The checker that remembers against the one that does not.
TEST(OverlapChecker, AgreesWithAFreshLook) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + pick(24);
    std::vector<MemoryRange> ranges(static_cast<std::size_t>(n));
    const int spread = round % 4 == 0 ? 20 : 2000;
    const auto draw = [&]() -> MemoryRange {
      if (pick(10) == 0) return {};
      const auto begin = static_cast<std::uintptr_t>(8 + 8 * pick(spread));
      return Range(begin, begin + 8 * static_cast<std::uintptr_t>(1 + pick(3)));
    };
    for (MemoryRange& r : ranges) r = draw();
    OverlapChecker checker(FindOverlap(ranges));
    for (int step = 0; step < 60; ++step) {
      ASSERT_EQ(checker.Check(ranges), FindOverlap(ranges) == checker.expected()) << round << ' ' << step;
      const std::vector<MemoryRange> before = ranges;
      for (int k = pick(4); k > 0; --k) {
        const auto i = static_cast<std::size_t>(pick(n)), j = static_cast<std::size_t>(pick(n));
        if (pick(2) == 0) {
          std::swap(ranges[i], ranges[j]);
        } else {
          ranges[i] = draw();
        }
      }
      ASSERT_EQ(checker.Check(ranges), FindOverlap(ranges) == checker.expected()) << round << ' ' << step;
      if (FindOverlap(ranges) != checker.expected() && pick(2) == 0) ranges = before;
    }
  }
}

TEST(ExplainOverlap, NamesTheFirstDifference) {
  const std::vector<std::string> names = {"x", "y"};
  const OverlapFact apart = FindOverlap({Range(100, 200), Range(300, 400)});
  const OverlapFact shared = FindOverlap({Range(100, 200), Range(100, 200)});
  EXPECT_EQ(ExplainOverlap(apart, shared, names), "tensors 'x' and 'y' share memory, which they did not");
  EXPECT_EQ(ExplainOverlap(shared, apart, names), "tensors 'x' and 'y' share no memory, which they did");
  EXPECT_EQ(ExplainOverlap(apart, apart, names), "");
}

}  // namespace
}  // namespace framefuse
