// One kernel over tensors of one shape that are not flat, in emulation: rows, columns, other memory formats.
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

struct Case {
  const char* name;
  const char *in, *out;  // types
  const char* call;      // of an operator, without its first argument
  std::vector<std::int64_t> sizes, strides;
  int tensors;
  std::int64_t offset = 0;  // of the second tensor in its memory, in elements
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string TextOf(const Case& c) {
  std::string text = "graph \"g\" functional\n", nodes, outputs;
  for (int i = 0; i < c.tensors; ++i) {
    const int result = c.tensors + i;
    absl::StrAppend(&text, "input %", i, ": ", c.in, " argument\n");
    absl::StrAppend(&nodes, "%", result, ": ", c.out, " = ", absl::StrCat(c.call), "\n");
    nodes.replace(nodes.find('@'), 1, absl::StrCat("%", i));
    absl::StrAppend(&outputs, "output %", result, " user\n");
  }
  return text + nodes + outputs;
}

class AlikeTables : public ::testing::TestWithParam<Case> {};

// `table`: how the text of one kernel over several tensors is known.
void ExpectSameValues(const Case& c, const char* table) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(TextOf(c));
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status()) << TextOf(c);
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  auto aten = AtenSequence::Create(*graph, {});
  ASSERT_TRUE(fused.ok() && aten.ok());
  const std::vector<PlanGroup> groups = (*fused)->Explain();
  const auto is_table = [&](const PlanGroup& g) { return g.code.find(table) != g.code.npos; };
  EXPECT_EQ(std::count_if(groups.begin(), groups.end(), is_table), 1);
  std::vector<at::Tensor> inputs, expected(static_cast<std::size_t>(c.tensors)), got(expected.size());
  for (int i = 0; i < c.tensors; ++i) {
    std::int64_t span = 1;
    for (std::size_t d = 0; d < c.sizes.size(); ++d) span += (c.sizes[d] - 1) * c.strides[d];
    const std::int64_t offset = i == 1 ? c.offset : 0;
    inputs.push_back(at::randn({span + offset}).as_strided(c.sizes, c.strides, offset));
  }
  ASSERT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(expected)).ok());
  ASSERT_TRUE((*fused)->Run(inputs, {}, absl::MakeSpan(got)).ok());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-5, 1e-5)) << i;
    EXPECT_EQ(got[i].strides(), expected[i].strides());
  }
  for (const PlanGroup& group : (*fused)->Explain()) EXPECT_NE(group.code, "");  // nothing was given up
}

TEST_P(AlikeTables, EmulatedCudaEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  ExpectSameValues(GetParam(), "blockIdx.y");
  cuda::SetEngineForTesting(nullptr);
}

TEST_P(AlikeTables, EmulatedPtxEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  int printed = 0;
  cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
  ExpectSameValues(GetParam(), "%ctaid.y");
  EXPECT_GT(printed, 0);
  cuda::SetEngineForTesting(nullptr);
}

constexpr const char* kTurned = "f32[8, 16, 3, 3]{strides=[144, 1, 48, 16]}";
constexpr const char* kOrdered = "aten.clone(@, memory_format=0)";

INSTANTIATE_TEST_SUITE_P(
    Kernels, AlikeTables,
    ::testing::Values(
        Case{"formats", kTurned, "f32[8, 16, 3, 3]", kOrdered, {8, 16, 3, 3}, {144, 1, 48, 16}, 5},
        Case{"unaligned", kTurned, "f32[8, 16, 3, 3]", kOrdered, {8, 16, 3, 3}, {144, 1, 48, 16}, 3, 1},
        Case{"transposed", "f32[72, 128]{strides=[1, 72]}", "f32[72, 128]", kOrdered, {72, 128}, {1, 72}, 3},
        Case{"rows", "f32[9, 260]", "f32[9, 260]", "aten._softmax(@, 1, False)", {9, 260}, {260, 1}, 3},
        Case{"columns", "f32[40, 65]", "f32[65]", "aten.sum.dim_IntList(@, [0], False)", {40, 65}, {65, 1}, 3},
        Case{"launches", "f32[2, 3]{strides=[1, 2]}", "f32[2, 3]", kOrdered, {2, 3}, {1, 2}, 300}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace framefuse
