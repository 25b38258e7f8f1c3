// Which sizes get a plan of their own.
#include "backends/graph/sized_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace framefuse {
namespace {

constexpr char kOneSize[] = R"(graph "g"
symbol s0 = 6 min=1
input %0: f32[s0] argument "x"
%1: f32[s0] = aten.sin(%0)
output %1 user
)";

class NoPlan final : public Plan {
 public:
  absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> /*inputs*/,
                                              absl::Span<std::int64_t> /*symbols*/) const override {
    return std::vector<at::Tensor>();
  }
  PlanExplanation Explain() const override { return {}; }
};

// Counts what it compiles without symbols.
class CountingBackend final : public Backend {
 public:
  absl::StatusOr<std::shared_ptr<Plan>> Compile(ir::Graph graph, const BackendOptions& /*options*/) override {
    const bool is_static = graph.value(graph.inputs[0].value).sizes[0].is_constant();
    static_plans += is_static ? 1 : 0;
    if (is_static && refuses) return absl::UnimplementedError("no numbers here");
    return std::make_shared<NoPlan>();
  }
  int static_plans = 0;
  bool refuses = false;
};

class SizedPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<ir::Graph> graph = ir::Parse(kOneSize);
    ASSERT_TRUE(graph.ok()) << graph.status();
    absl::StatusOr<std::shared_ptr<Plan>> made = SizedPlan::Compile(backend_, *std::move(graph), BackendOptions());
    ASSERT_TRUE(made.ok()) << made.status();
    plan_ = *std::move(made);
  }
  void Call(std::int64_t size, int times = 1) {
    for (int i = 0; i < times; ++i) {
      std::vector<std::int64_t> symbols = {size};
      ASSERT_TRUE(plan_->Run({}, absl::MakeSpan(symbols)).ok());
    }
  }

  CountingBackend backend_;
  std::shared_ptr<Plan> plan_;
};

TEST_F(SizedPlanTest, SizesThatComeOftenGetTheirOwn) {
  Call(5, 3);
  EXPECT_EQ(backend_.static_plans, 0);
  Call(5, 9);
  EXPECT_EQ(backend_.static_plans, 1);
  Call(7, 7);
  EXPECT_EQ(backend_.static_plans, 1);
  Call(7);
  EXPECT_EQ(backend_.static_plans, 2);
}

TEST_F(SizedPlanTest, ManySizesInTurnsGetFew) {
  for (int round = 0; round < 8; ++round) {
    for (std::int64_t size = 2; size < 102; ++size) Call(size);
  }
  EXPECT_EQ(backend_.static_plans, 2);
}

TEST_F(SizedPlanTest, WhatTheBackendRefusesIsNotAskedAgain) {
  backend_.refuses = true;
  Call(5, 40);
  EXPECT_EQ(backend_.static_plans, 1);
}

}  // namespace
}  // namespace framefuse
