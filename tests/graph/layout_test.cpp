// Whether a value's elements fill a piece of memory: what torch says of tensors of those sizes and strides.
#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty_strided.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/graph/graph.h"

namespace framefuse::ir {
namespace {

struct Layout {
  std::vector<std::int64_t> sizes, strides;
  bool dense;
};

TEST(IsDense, SaysWhatTorchSays) {
  const std::vector<Layout> layouts = {
      {{}, {}, true},
      {{1}, {5}, true},
      {{3}, {1}, true},
      {{3}, {2}, false},
      {{3}, {0}, false},
      {{2, 3}, {3, 1}, true},
      {{2, 3}, {1, 2}, true},
      {{2, 3}, {4, 1}, false},
      {{2, 3}, {2, 1}, false},
      {{2, 3, 4}, {4, 8, 1}, true},
      {{2, 1, 4}, {4, 99, 1}, true},
      {{2, 3, 4, 5}, {60, 1, 15, 3}, true},
      {{2, 2}, {1, 1}, false},
      {{0}, {1}, true},
      {{0}, {7}, true},
      {{2, 0}, {3, 1}, true},
      {{2, 3, 0}, {1, 100, 7}, true},
  };
  ExprTable exprs;
  for (const Layout& l : layouts) {
    const at::Tensor tensor = at::empty_strided(l.sizes, l.strides);
    EXPECT_EQ(tensor.is_non_overlapping_and_dense(), l.dense) << tensor.sizes() << tensor.strides();
    EXPECT_EQ(IsDense(exprs, DescribeTensor(tensor)), l.dense) << tensor.sizes() << tensor.strides();
  }
}

TEST(IsDense, HoldsForAllValuesOfSymbols) {
  absl::StatusOr<Graph> g = Parse(R"(graph "g"
symbol s0 = 5 min=2 max=99
input %0: f32[s0, 4] argument "x"
input %1: f32[s0, 4]{strides=[8, 1]} argument "y"
input %2: f32[4, s0]{strides=[5, 1]} argument "dense for the value at hand only"
output %0 user
)");
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_FALSE(IsDense(g->exprs, g->value(2)));
  EXPECT_TRUE(IsDense(g->exprs, g->value(0)));
  EXPECT_FALSE(IsDense(g->exprs, g->value(1)));
}

}  // namespace
}  // namespace framefuse::ir
