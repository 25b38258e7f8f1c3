// The steps of a plan, their order and their memory: small kernels of inputs first, concatenations that grow in one
// piece of memory, pads behind what a kernel wrote.
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/config.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ::testing::ElementsAre;

// What the steps of a graph of f32 are, which computes what ATen's operators do.
std::vector<std::string> StepsOf(const char* text, const BackendOptions& options = {}) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  EXPECT_TRUE(graph.ok()) << MessageOf(graph.status());
  auto fused = fusion::FusedExecutable::Create(*graph, options);
  auto aten = AtenSequence::Create(*graph, {});
  EXPECT_TRUE(fused.ok() && aten.ok());
  std::vector<at::Tensor> inputs, expected(graph->outputs.size()), got(graph->outputs.size());
  for (const ir::Input& input : graph->inputs) {
    std::vector<std::int64_t> sizes;
    for (const ir::Dim& d : graph->value(input.value).sizes) sizes.push_back(d.constant());
    inputs.push_back(at::randn(sizes).abs());
  }
  EXPECT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(expected)).ok());
  EXPECT_TRUE((*fused)->Run(inputs, {}, absl::MakeSpan(got)).ok());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-4, 1e-5)) << i;
    EXPECT_EQ(got[i].strides(), expected[i].strides());
  }
  std::vector<std::string> steps;
  for (const PlanGroup& g : (*fused)->Explain()) steps.push_back(g.description);
  return steps;
}

TEST(Steps, SmallKernelsOfInputsComeFirst) {
  EXPECT_THAT(StepsOf(R"(graph "g" functional
input %0: f32[40, 50] argument
input %1: f32[50] argument
input %2: f32[40] argument
input %3: f32[50, 40] argument
%4: f32[40, 40] = aten.mm(%0, %3)
%5: f32[50, 1] = aten.view(%1, [50, 1])
%6: f32[50, 1] = aten.rsqrt(%5)
%7: f32[40, 40] = aten.mm(%4, %4)
%8: f32[40, 1] = aten.view(%2, [40, 1])
%9: f32[40, 1] = aten.rsqrt(%8)
%10: f32[40, 1] = aten.mm(%7, %9)
%11: f32[40, 1] = aten.mm(%0, %6)
output %10 user
output %11 user
)"),
              ElementsAre("aten.view", "aten.view", "horizontal × 2, pointwise: rsqrt", "aten.mm", "aten.mm", "aten.mm",
                          "aten.mm"));
}

TEST(Steps, WhatLeavesTheGraphStays) {
  EXPECT_THAT(StepsOf(R"(graph "g" functional
input %0: f32[40, 40] argument
input %1: f32[40] argument
%2: f32[40, 40] = aten.mm(%0, %0)
%3: f32[40] = aten.rsqrt(%1)
output %2 user
output %3 user
)"),
              ElementsAre("aten.mm", "pointwise: rsqrt"));
}

TEST(Steps, ConcatenationsGrow) {
  EXPECT_THAT(StepsOf(R"(graph "g" functional
input %0: f32[4, 8] argument
input %1: f32[40, 8] argument
input %2: f32[48, 8] argument
%3: f32[4, 40] = aten.cat([%0, %0, %0, %0, %0], 1)
%4: f32[4, 40] = aten.relu(%3)
%5: f32[4, 8] = aten.mm(%4, %1)
%6: f32[4, 48] = aten.cat([%0, %0, %0, %0, %0, %5], 1)
%7: f32[4, 48] = aten.sqrt(%6)
%8: f32[4, 8] = aten.mm(%7, %2)
%9: f32[4, 56] = aten.cat([%0, %0, %0, %0, %0, %5, %8], 1)
output %9 user
)"),
              ElementsAre("in place: growing cat", "pointwise: relu", "aten.mm", "in place: growing cat",
                          "pointwise: sqrt", "aten.mm", "in place: growing cat"));
}

TEST(Steps, ProductsArePadded) {
  config().rewrite_always.set(true);
  EXPECT_THAT(StepsOf(R"(graph "g" functional
input %0: f32[16, 11] argument
input %1: f32[11, 13] argument
%2: f32[16, 11] = aten.sqrt(%0)
%3: f32[16, 13] = aten.mm(%2, %1)
output %3 user
)"),
              ElementsAre("pointwise: sqrt", "in place: pad", "in place: pad", "aten.mm", "aten.slice.Tensor",
                          "pointwise: clone"));
  config().rewrite_always.set(false);
}

// A gradient in another memory format is copied as soon as it is there; where all come at once, all of one shape are
// copied beside each other.
TEST(Steps, CopiesOfResults) {
  constexpr const char* kText = R"(graph "g" functional
input %0: f32[8, 8] argument
%1: f32[8, 8] = aten.mm(%0, %0)
%2: f32[8, 8] = aten.mm(%1, %0)
%3: f32[8, 8]{strides=[1, 8]} = aten.t(%1)
%4: f32[8, 8] = aten.clone(%3, memory_format=0)
%5: f32[8, 8]{strides=[1, 8]} = aten.t(%2)
%6: f32[8, 8] = aten.clone(%5, memory_format=0)
output %4 user
output %6 user
)";
  constexpr const char *kMm = "aten.mm", *kT = "aten.t", *kCopy = "pointwise: clone";
  EXPECT_THAT(StepsOf(kText), ElementsAre(kMm, kT, kCopy, kMm, kT, kCopy));
  BackendOptions recorded;
  recorded.mode = "reduce-overhead";
  EXPECT_THAT(StepsOf(kText, recorded), ElementsAre(kMm, kMm, kT, kT, kCopy, kCopy));
}

// Without a run: there is no process group here.
std::vector<std::string> PlannedStepsOf(const ir::Graph& graph) {
  auto fused = fusion::FusedExecutable::Create(graph, {});
  EXPECT_TRUE(fused.ok()) << MessageOf(fused.status());
  std::vector<std::string> steps;
  if (!fused.ok()) return steps;
  for (const PlanGroup& g : (*fused)->Explain()) steps.push_back(g.description);
  return steps;
}

// What has been waited for by one name may be read by another: neither a copy nor a small kernel goes before the wait.
TEST(Steps, NothingGoesBeforeAWait) {
  const absl::StatusOr<ir::Graph> graph = ir::Parse(R"(graph "g" functional
input %0: f32[8, 8]{storage=0} argument
input %1: f32[8, 8] argument
%2: f32[8, 8]{storage=0} = _c10d_functional.wait_tensor(%0)
%3: f32[8, 8]{storage=1} = _c10d_functional.all_reduce(%1, "sum", "0")
%4: f32[8, 8]{storage=1} = _c10d_functional.wait_tensor(%3)
%5: f32[8, 8]{strides=[1, 8], storage=1} = aten.t(%3)
%6: f32[8, 8] = aten.clone(%5, memory_format=0)
%7: f32[8, 8] = aten.exp(%0)
%8: f32[8, 8] = aten.mm(%7, %6)
output %6 user
output %8 user
)");
  if (!graph.ok()) GTEST_SKIP() << "torch without collectives: " << MessageOf(graph.status());
  const std::vector<std::string> steps = PlannedStepsOf(*graph);
  // Each wait comes as late as it may.
  constexpr const char* kWait = "_c10d_functional.wait_tensor";
  EXPECT_THAT(steps, ElementsAre("_c10d_functional.all_reduce", kWait, "aten.t", "pointwise: clone", kWait,
                                 "pointwise: exp", "aten.mm"));
}

// What only makes results runs while others speak to each other: what they wait for is begun before it. A wait comes
// before the first kernel that needs it, not before the first operator of a kernel that comes later.
TEST(Steps, ProductsOfResultsComeBeforeAWait) {
  constexpr const char* kText = R"(graph "g" functional
input %0: f32[8, 8] argument
input %1: f32[8, 8] argument
%2: f32[8, 8]{storage=5} = aten.mm(%0, %1)
%3: f32[8, 8]{strides=[1, 8], storage=5} = aten.t(%2)
%4: f32[8, 8] = aten.mm(%1, %0)
%5: f32[8, 8]{storage=1} = _c10d_functional.all_reduce(%4, "sum", "0")
%6: f32[8, 8]{storage=1} = _c10d_functional.wait_tensor(%5)
%7: f32[8, 8] = aten.add.Tensor(%6, %1, alpha=1)
%8: f32[8, 8] = aten.mm(%0, %0)
%9: f32[8, 8] = aten.add.Tensor(%7, %8, alpha=1)
%10: f32[8, 8] = aten.mm(%9, %1)
output %3 user
output %10 user
)";
  const absl::StatusOr<ir::Graph> graph = ir::Parse(kText);
  if (!graph.ok()) GTEST_SKIP() << "torch without collectives: " << MessageOf(graph.status());
  constexpr const char *kMm = "aten.mm", *kAll = "_c10d_functional.all_reduce", *kWait = "_c10d_functional.wait_tensor";
  EXPECT_THAT(PlannedStepsOf(*graph),
              ElementsAre(kMm, kAll, kMm, kMm, "aten.t", kWait, testing::HasSubstr("pointwise: add, add"), kMm));
}

}  // namespace
}  // namespace framefuse
