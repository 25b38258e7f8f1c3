// The end of a run that a recording leaves out: which steps it is, that it makes fresh memory each time of what the
// steps before it left, and when there is none.
#include "backends/fusion/ending.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/fusion/fused_executable.h"
#include "backends/fusion/planner.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"

namespace framefuse {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<bool> apart;   // by output: it may be made apart
  std::vector<bool> by_end;  // by output: the ending makes it; all false: there is none
};

class Endings : public ::testing::TestWithParam<Case> {};

std::vector<at::Tensor> InputsOf(const ir::Graph& graph) {
  std::vector<at::Tensor> inputs;
  for (const ir::Input& input : graph.inputs) {
    std::vector<std::int64_t> sizes;
    for (const ir::Dim& d : graph.value(input.value).sizes) sizes.push_back(d.constant());
    inputs.push_back(at::randn(sizes));
  }
  return inputs;
}

void ExpectEqual(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i].defined()) << i;
    EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-4, 1e-4)) << i;
    EXPECT_EQ(got[i].strides(), expected[i].strides()) << i;
  }
}

TEST_P(Endings, MakeTheSameInFreshMemory) {
  const Case& c = GetParam();
  const absl::StatusOr<ir::Graph> graph = ir::Parse(c.text);
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  BackendOptions options;
  options.mode = "reduce-overhead";
  const auto fused = fusion::FusedExecutable::Create(*graph, options);
  const auto aten = AtenSequence::Create(*graph, {});
  ASSERT_TRUE(fused.ok() && aten.ok());
  const std::vector<at::Tensor> inputs = InputsOf(*graph);
  std::vector<at::Tensor> expected(c.apart.size()), begun(c.apart.size());
  ASSERT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(expected)).ok());
  std::unique_ptr<Ending> ending;
  ASSERT_TRUE((*fused)->RunToEnding(inputs, {}, absl::MakeSpan(begun), c.apart, &ending).ok());
  bool any = false;
  for (std::size_t i = 0; i < begun.size(); ++i) {
    EXPECT_EQ(begun[i].defined(), !c.by_end[i]) << i;
    any = any || c.by_end[i];
  }
  ASSERT_EQ(ending != nullptr, any);
  if (!any) return ExpectEqual(begun, expected);
  std::vector<at::Tensor> first = begun, second = begun;
  ASSERT_TRUE(ending->Run(inputs, absl::MakeSpan(first)).ok());
  ASSERT_TRUE(ending->Run(inputs, absl::MakeSpan(second)).ok());
  ExpectEqual(first, expected);
  ExpectEqual(second, expected);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].storage().is_alias_of(second[i].storage()), !c.by_end[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Text, Endings,
                         ::testing::Values(Case{"a_kernel_behind_a_product",
                                                R"(graph "g" functional
input %0: f32[256, 64] argument
input %1: f32[64, 512] argument
input %2: f32[256, 512] argument
%3: f32[256, 512] = aten.mm(%0, %1)
%4: f32[256, 512] = aten.mul.Tensor(%3, %2)
%5: f32[2, 128, 512]{storage=0} = aten.view(%4, [2, 128, 512])
output %5 user
)",
                                                {true},
                                                {true}},
                                           Case{"a_product_with_a_view_of_its_weight",
                                                R"(graph "g" functional
input %0: f32[256, 64] argument
input %1: f32[512, 64]{storage=0} argument
%2: f32[256, 64] = aten.mul.Tensor(%0, %0)
%3: f32[256] = aten.sum.dim_IntList(%2, [1], False)
%4: f32[64, 512]{strides=[1, 64], storage=0} = aten.t(%1)
%5: f32[256, 512] = aten.mm(%2, %4)
output %5 user
output %3 user
)",
                                                {true, true},
                                                {true, false}},
                                           Case{"what_is_hidden_is_recorded",
                                                R"(graph "g" functional
input %0: f32[256, 64] argument
input %1: f32[64, 512] argument
%2: f32[256, 512] = aten.mm(%0, %1)
%3: f32[256, 512] = aten.exp(%2)
output %3 user
output %3 hidden
)",
                                                {true, false},
                                                {false, false}},
                                           Case{"gradients_of_weights_between_others",
                                                R"(graph "g" functional
input %0: f32[256, 512]{storage=0} argument
input %1: f32[256, 512] argument
input %2: f32[512, 512] argument
input %11: f32[512, 128] argument
%3: f32[512, 256]{strides=[1, 512], storage=0} = aten.t(%0)
%4: f32[512, 512] = aten.mm(%3, %1)
%5: f32[256, 512] = aten.mm(%1, %2)
%6: f32[256, 512] = aten.sin(%5)
%7: f32[512, 512] = aten.mm(%3, %6)
%12: f32[256, 128] = aten.mm(%6, %11)
%13: f32[256, 1] = aten.amax(%12, [1], True)
%8: f32[256, 512] = aten.mul.Tensor(%6, %13)
%9: f32[256, 512] = aten.mm(%8, %2)
%10: f32[256] = aten.amax(%9, [1], False)
output %4 user
output %7 user
output %10 user
)",
                                                {true, true, true},
                                                {true, true, false}},
                                           Case{"views_of_the_gradient_of_a_weight",
                                                R"(graph "g" functional
input %0: f32[256, 512]{storage=0} argument
input %1: f32[256, 512] argument
input %2: f32[512, 512] argument
%3: f32[512, 256]{strides=[1, 512], storage=0} = aten.t(%0)
%4: f32[512, 512]{storage=1} = aten.mm(%3, %1)
%5: f32[512, 512]{strides=[1, 512], storage=1} = aten.t(%4)
%6: f32[256, 512] = aten.mm(%1, %2)
%7: f32[512, 512]{storage=1} = aten.t(%5)
%8: f32[256] = aten.amax(%6, [1], False)
output %7 user
output %8 user
output %5 user
)",
                                                {true, true, true},
                                                {true, false, true}},
                                           Case{"what_holds_more_than_it_makes_is_recorded",
                                                R"(graph "g" functional
input %0: f32[8192, 256] argument
input %1: f32[256, 256] argument
%2: f32[8192, 256] = aten.mm(%0, %1)
%3: f32[256, 8192]{strides=[1, 256], storage=0} = aten.t(%2)
%4: f32[256, 256] = aten.mm(%3, %0)
%5: f32[8192, 256] = aten.mm(%2, %1)
%6: f32[8192] = aten.amax(%5, [1], False)
output %4 user
output %6 user
)",
                                                {true, true},
                                                {false, false}},
                                           Case{"small_results_are_recorded",
                                                R"(graph "g" functional
input %0: f32[16, 64] argument
input %1: f32[64, 16] argument
%2: f32[16, 16] = aten.mm(%0, %1)
%3: f32[16, 16] = aten.exp(%2)
output %3 user
)",
                                                {true},
                                                {false}},
                                           Case{"what_another_step_reads_is_recorded",
                                                R"(graph "g" functional
input %0: f32[256, 256] argument
input %1: f32[256, 256] argument
%2: f32[256, 256] = aten.mm(%0, %1)
%3: f32[256, 256] = aten.exp(%2)
%4: f32[256, 256] = aten.mm(%3, %1)
%5: f32[256] = aten.sum.dim_IntList(%4, [1], False)
output %3 user
output %5 user
)",
                                                {true, true},
                                                {false, false}},
                                           Case{"nothing_but_its_end",
                                                R"(graph "g" functional
input %0: f32[256, 512] argument
input %1: f32[256, 512] argument
%2: f32[256, 512] = aten.mul.Tensor(%0, %1)
output %2 user
)",
                                                {true},
                                                {false}}),
                         [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

// A product that runs while others speak to each other stays in the recording, for it costs less there.
TEST(EndingPlan, LeavesWhatHidesACollective) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(R"(graph "g" functional
input %0: f32[512, 512] argument
input %1: f32[512, 512] argument
%2: f32[512, 512] = aten.mm(%0, %1)
%3: f32[512, 512]{storage=1} = _c10d_functional.all_reduce(%1, "sum", "0")
%4: f32[512, 512]{storage=1} = _c10d_functional.wait_tensor(%3)
%5: f32[512, 512] = aten.mm(%4, %0)
%6: f32[512] = aten.amax(%4, [1], False)
output %2 user
output %5 user
output %6 user
)");
  if (!graph.ok()) GTEST_SKIP() << "torch without collectives: " << MessageOf(graph.status());
  BackendOptions options;
  options.mode = "reduce-overhead";
  fusion::Planner planner(&*graph, options);
  auto steps = planner.Plan();
  ASSERT_TRUE(steps.ok()) << MessageOf(steps.status());
  EXPECT_THAT(fusion::PlanEnding(*graph, *steps, {true, true, true}, {}).outputs, testing::ElementsAre(1));
}

}  // namespace
}  // namespace framefuse
