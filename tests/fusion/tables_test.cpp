// One kernel over a table of tensors, in emulation: sizes that vectors divide (the exact form, and the plain one where
// memory is not aligned for it) and sizes that they don't.
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const char* dtype;
  std::vector<std::int64_t> sizes;
  std::int64_t offset;  // of every tensor in its memory, in elements
  bool exact;           // no point is done by itself
};

// a + b / 2 of each size.
std::string TextOf(const Case& c) {
  std::string text = "graph \"g\" functional\n", nodes, outputs;
  std::size_t value = 2 * c.sizes.size();
  for (std::size_t i = 0; i < c.sizes.size(); ++i) {
    const std::string type = absl::StrCat(c.dtype, "[", c.sizes[i], "]"), a = absl::StrCat("%", 2 * i);
    const std::string b = absl::StrCat("%", 2 * i + 1), sum = absl::StrCat("%", value++);
    absl::StrAppend(&text, "input ", a, ": ", type, " argument\ninput ", b, ": ", type, " argument\n");
    absl::StrAppend(&nodes, sum, ": ", type, " = aten.add.Tensor(", a, ", ", b, ", alpha=0.5)\n");
    absl::StrAppend(&outputs, "output ", sum, " user\n");
  }
  return text + nodes + outputs;
}

class Tables : public ::testing::TestWithParam<Case> {};

// `table`, `singles`: how the text of one kernel over several tensors, and of points done by themselves, is known.
void ExpectSameValues(const Case& c, const char* table, const char* singles) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(TextOf(c));
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  auto aten = AtenSequence::Create(*graph, {});
  ASSERT_TRUE(fused.ok() && aten.ok());
  std::string code;
  for (const PlanGroup& group : (*fused)->Explain()) code += group.code;
  EXPECT_THAT(code, ::testing::HasSubstr(table));
  EXPECT_EQ(code.find(singles) == code.npos, c.exact) << code;
  const at::ScalarType dtype = std::string(c.dtype) == "f32" ? at::kFloat : at::kBFloat16;
  std::vector<at::Tensor> inputs;
  for (std::int64_t n : c.sizes) {
    for (int i = 0; i < 2; ++i) inputs.push_back(at::randn({n + c.offset}).to(dtype).slice(0, c.offset));
  }
  std::vector<at::Tensor> expected(c.sizes.size()), got(c.sizes.size());
  ASSERT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(expected)).ok());
  ASSERT_TRUE((*fused)->Run(inputs, {}, absl::MakeSpan(got)).ok());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-2, 1e-2)) << i;
  for (const PlanGroup& group : (*fused)->Explain()) EXPECT_NE(group.code, "");  // nothing was given up
}

TEST_P(Tables, EmulatedCudaEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  ExpectSameValues(GetParam(), "blockIdx.y", "if (fast");
  cuda::SetEngineForTesting(nullptr);
}

TEST_P(Tables, EmulatedPtxEqualsAten) {
  if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  int printed = 0;
  cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
  ExpectSameValues(GetParam(), "%ctaid.y", "and.pred");
  EXPECT_GT(printed, 0);
  cuda::SetEngineForTesting(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Tables,
                         ::testing::Values(Case{"whole", "bf16", {8, 64, 4104}, 0, true},
                                           Case{"whole_f32", "f32", {8, 64, 4104}, 0, true},
                                           Case{"unaligned", "bf16", {8, 64, 4104}, 1, true},
                                           Case{"unaligned_f32", "f32", {8, 4104, 64}, 3, true},
                                           Case{"parts", "bf16", {9, 64, 4101}, 0, false},
                                           Case{"parts_f32", "f32", {9, 64, 4101}, 0, false},
                                           Case{"parts_unaligned", "bf16", {9, 64, 4101}, 1, false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace framefuse
