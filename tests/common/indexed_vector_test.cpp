// IndexedVector: what an id finds, what is none of its ids, and that a flag can be written through it.
#include "common/indexed_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace framefuse {
namespace {

using Id = std::int32_t;

template <typename Vector, typename Key>
concept IsIndexedBy = requires(Vector v, Key key) {
  v[key];
};

TEST(IndexedVectorTest, AnIdFindsItsItem) {
  IndexedVector<Id, std::string> names{"zero", "one"};
  const Id third = names.end_id();
  names.push_back("two");
  EXPECT_EQ(names[third], "two");
  EXPECT_EQ(names[Id{0}], "zero");
  EXPECT_EQ(names[std::size_t{1}], "one");
  names[third] = "three";
  EXPECT_EQ(names.items(), (std::vector<std::string>{"zero", "one", "three"}));
}

TEST(IndexedVectorTest, NoneIsNoIdOfIt) {
  const IndexedVector<Id, int> counts(3, 7);
  EXPECT_TRUE(counts.Has(Id{0}) && counts.Has(Id{2}));
  EXPECT_FALSE(counts.Has(Id{3}));
  EXPECT_FALSE(counts.Has(Id{-1}));
  EXPECT_FALSE((IndexedVector<Id, int>().Has(Id{0})));
}

TEST(IndexedVectorTest, FlagsAreWritten) {
  IndexedVector<Id, bool> seen(2, false);
  seen[Id{1}] = true;
  EXPECT_FALSE(seen[Id{0}]);
  EXPECT_TRUE(seen[Id{1}]);
}

TEST(IndexedVectorTest, OtherNumbersAreNoIds) {
  static_assert(IsIndexedBy<IndexedVector<Id, int>, Id> && IsIndexedBy<IndexedVector<Id, int>, std::size_t>);
  static_assert(!IsIndexedBy<IndexedVector<Id, int>, std::int64_t> && !IsIndexedBy<IndexedVector<Id, int>, double>);
}

}  // namespace
}  // namespace framefuse
