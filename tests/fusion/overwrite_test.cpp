// New values of inputs that kernels write over the inputs' own memory: where that happens, and where it must not.
// Each row says which of its mutated outputs may be the input itself.
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

struct Case {
  const char* name;
  const char* text;
  std::vector<bool> in_place;  // of the mutated inputs, in the order of the outputs
};

std::vector<Overwrite> AllMutations(const ir::Graph& graph) {
  std::vector<Overwrite> all;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i].role != ir::OutputRole::kMutatedInput) continue;
    all.push_back({graph.outputs[i].input, static_cast<std::int32_t>(i)});
  }
  return all;
}

std::vector<at::Tensor> InputsOf(const ir::Graph& graph) {
  std::vector<at::Tensor> inputs;
  for (const ir::Input& input : graph.inputs) {
    std::vector<std::int64_t> sizes;
    for (const ir::Dim& d : graph.value(input.value).sizes) sizes.push_back(d.constant());
    const bool is_index = graph.value(input.value).dtype == c10::kLong;
    inputs.push_back(is_index ? at::zeros(sizes, c10::kLong) : at::randn(sizes));
  }
  return inputs;
}

class Overwriting : public ::testing::TestWithParam<Case> {};

void ExpectSameValues(const Case& c) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(c.text);
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  auto aten = AtenSequence::Create(*graph, {});
  ASSERT_TRUE(fused.ok() && aten.ok());
  const std::vector<Overwrite> mutations = AllMutations(*graph);
  (*fused)->AllowOverwrites(mutations);
  const std::vector<at::Tensor> inputs = InputsOf(*graph);
  std::vector<at::Tensor> expected(graph->outputs.size()), got(graph->outputs.size());
  ASSERT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(expected)).ok());
  ASSERT_TRUE((*fused)->Run(inputs, {}, absl::MakeSpan(got)).ok());
  bool any = false;
  for (std::size_t m = 0; m < mutations.size(); ++m) {
    const auto output = static_cast<std::size_t>(mutations[m].output);
    const bool in_place = got[output].is_same(inputs[static_cast<std::size_t>(mutations[m].input)]);
    EXPECT_EQ(in_place, c.in_place[m]) << "mutation " << m;
    any = any || in_place;
  }
  EXPECT_EQ((*fused)->WritesInputs(), any);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-5, 1e-5)) << "output " << i;
  }
}

TEST_P(Overwriting, GivesTheSameValues) { ExpectSameValues(GetParam()); }

TEST_P(Overwriting, GivesTheSameValuesInEmulatedCuda) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  ExpectSameValues(GetParam());
  cuda::SetEngineForTesting(nullptr);
}

TEST_P(Overwriting, GivesTheSameValuesInEmulatedPtx) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  int printed = 0;
  cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
  ExpectSameValues(GetParam());
  cuda::SetEngineForTesting(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Text, Overwriting,
                         ::testing::Values(Case{"two_moments",
                                                R"(graph "g" functional
input %0: f32[33, 70] argument mutated=0
input %1: f32[33, 70] argument mutated=1
input %2: f32[33, 70] argument
%3: f32[33, 70] = aten.add.Tensor(%1, %2, alpha=0.5)
%4: f32[33, 70] = aten.sub.Tensor(%0, %3, alpha=1)
output %4 mutated_input=0
output %3 mutated_input=1
)",
                                                {true, true}},
                                           Case{"many_tensors",
                                                R"(graph "g" functional
input %0: f32[33, 71] argument mutated=0
input %1: f32[50] argument mutated=1
input %2: f32[33, 71] argument
input %3: f32[50] argument
%4: f32[33, 71] = aten.lerp.Scalar(%0, %2, 0.25)
%5: f32[50] = aten.lerp.Scalar(%1, %3, 0.25)
output %4 mutated_input=0
output %5 mutated_input=1
)",
                                                {true, true}},
                                           Case{"old_value_is_needed_after_the_new_one",
                                                R"(graph "g" functional
input %0: f32[33] argument mutated=0
input %1: f32[33] argument mutated=1
%2: f32[33] = aten.neg(%1)
%3: f32[33] = aten.sub.Tensor(%1, %0, alpha=1)
output %2 mutated_input=0
output %3 mutated_input=1
)",
                                                {false, true}},
                                           Case{"read_transposed",
                                                R"(graph "g" functional
input %0: f32[40, 40] argument mutated=0
%1: f32[40, 40]{strides=[1, 40]} = aten.t(%0)
%2: f32[40, 40] = aten.add.Tensor(%0, %1, alpha=1)
output %2 mutated_input=0
)",
                                                {false}},
                                           Case{"read_broadcast",
                                                R"(graph "g" functional
input %0: f32[1, 40] argument mutated=0
input %1: f32[40, 40] argument
%2: f32[40, 40] = aten.add.Tensor(%1, %0, alpha=1)
%3: f32[1, 40] = aten.sum.dim_IntList(%2, [0], True)
output %3 mutated_input=0
)",
                                                {false}},
                                           Case{"softmax_of_itself",
                                                R"(graph "g" functional
input %0: f32[8, 40] argument mutated=0
%1: f32[8, 40] = aten._softmax(%0, -1, False)
output %1 mutated_input=0
)",
                                                {false}},
                                           Case{"an_operator_comes_after",
                                                R"(graph "g" functional
input %0: f32[16, 16] argument mutated=0
%1: f32[16, 16] = aten.sin(%0)
%2: f32[16, 16] = aten.mm(%1, %1)
output %1 mutated_input=0
output %2 user
)",
                                                {false}},
                                           Case{"the_user_gets_the_new_value_too",
                                                R"(graph "g" functional
input %0: f32[16, 16] argument mutated=0
%1: f32[16, 16] = aten.sin(%0)
output %1 mutated_input=0
output %1 user
)",
                                                {false}},
                                           Case{"the_user_gets_a_view_of_the_old_value",
                                                R"(graph "g" functional
input %0: f32[16, 16] argument mutated=0
%1: f32[256] = aten.view(%0, [256])
%2: f32[16, 16] = aten.sin(%0)
output %2 mutated_input=0
output %1 user
)",
                                                {false}},
                                           Case{"may_overlap_another_input",
                                                R"(graph "g" functional
input %0: f32[16] argument mutated=0 overlap=1
input %1: f32[16] argument overlap=1
%2: f32[16] = aten.add.Tensor(%0, %1, alpha=1)
output %2 mutated_input=0
)",
                                                {false}},
                                           Case{"read_by_a_later_kernel",
                                                R"(graph "g" functional
input %0: f32[16] argument mutated=0
input %1: f32[8, 16] argument
%2: f32[16] = aten.neg(%0)
%3: f32[8, 16] = aten.mul.Tensor(%1, %0)
output %2 mutated_input=0
output %3 user
)",
                                                {false}}),
                         [](const auto& info) { return info.param.name; });

// Parts that operators write: the input itself, also where the graph goes on.
INSTANTIATE_TEST_SUITE_P(Parts, Overwriting,
                         ::testing::Values(Case{"two_caches_at_one_index",
                                                R"(graph "g" functional
input %0: f32[5, 6] argument mutated=0
input %1: f32[5, 6] argument mutated=1
input %2: i64[2] argument
input %3: f32[2, 6] argument
%4: f32[5, 6] = aten.index_copy(%0, 0, %2, %3)
%5: f32[5, 6] = aten.index_copy(%1, 0, %2, %3)
%6: f32[6, 5]{strides=[1, 6]} = aten.t(%5)
%7: f32[5, 5] = aten.mm(%4, %6)
%8: f32[5, 5] = aten.sin(%7)
output %4 mutated_input=0
output %5 mutated_input=1
output %8 user
)",
                                                {true, true}},
                                           Case{"caches_of_two_sizes",
                                                R"(graph "g" functional
input %0: f32[5, 6] argument mutated=0
input %1: f32[3, 6] argument mutated=1
input %2: i64[1] argument
input %3: f32[1, 6] argument
%4: f32[5, 6] = aten.index_copy(%0, 0, %2, %3)
%5: f32[3, 6] = aten.index_copy(%1, 0, %2, %3)
output %4 mutated_input=0
output %5 mutated_input=1
)",
                                                {false, true}},
                                           Case{"by_subscripts",
                                                R"(graph "g" functional
input %0: f32[5, 6] argument mutated=0
input %1: i64[2] argument
input %2: f32[5, 2] argument
%3: f32[5, 6] = aten.index_put(%0, [None, %1], %2, False)
output %3 mutated_input=0
)",
                                                {true}},
                                           Case{"the_old_cache_is_read",
                                                R"(graph "g" functional
input %0: f32[5, 6] argument mutated=0
input %1: i64[1] argument
input %2: f32[1, 6] argument
%3: f32[5, 6] = aten.index_copy(%0, 0, %1, %2)
%4: f32[5, 6] = aten.sin(%0)
output %3 mutated_input=0
output %4 user
)",
                                                {false}},
                                           Case{"another_index_is_checked_after",
                                                R"(graph "g" functional
input %0: f32[5, 6] argument mutated=0
input %1: i64[1] argument
input %2: f32[1, 6] argument
%3: f32[5, 6] = aten.index_copy(%0, 0, %1, %2)
%4: f32[5, 1] = aten.index_select(%3, 1, %1)
output %3 mutated_input=0
output %4 user
)",
                                                {false}}),
                         [](const auto& info) { return info.param.name; });

// The layout of a call decides: another one than recorded is copied, and the caller writes the result back.
TEST(OverwritingLayouts, OtherStridesThanRecorded) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(R"(graph "g" functional
input %0: f32[6, 4] argument mutated=0
%1: f32[6, 4] = aten.sin(%0)
output %1 mutated_input=0
)");
  ASSERT_TRUE(graph.ok());
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  ASSERT_TRUE(fused.ok());
  (*fused)->AllowOverwrites(AllMutations(*graph));
  const at::Tensor given = at::randn({4, 6}).t(), before = given.clone();
  std::vector<at::Tensor> got(1);
  ASSERT_TRUE((*fused)->Run({given}, {}, absl::MakeSpan(got)).ok());
  EXPECT_FALSE(got[0].is_same(given));
  EXPECT_TRUE(at::equal(given, before));
  EXPECT_TRUE(at::allclose(got[0], before.sin()));
}

}  // namespace
}  // namespace framefuse
