// Kernels for unaligned memory are made when they are first needed, but not while the stream is recorded, be it by the
// user: operators run in that call, and nothing is given up. In emulation.
#include <ATen/ops/add.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/fused_executable.h"
#include "backends/graph/recording_probe.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

constexpr char kOneKernel[] = R"(graph "g" functional
input %0: bf16[4104] argument
input %1: bf16[4104] argument
%2: bf16[4104] = aten.add.Tensor(%0, %1, alpha=0.5)
output %2 user
)";

constexpr char kTable[] = R"(graph "g" functional
input %0: bf16[64] argument
input %1: bf16[64] argument
input %2: bf16[4104] argument
input %3: bf16[4104] argument
%4: bf16[64] = aten.add.Tensor(%0, %1, alpha=0.5)
%5: bf16[4104] = aten.add.Tensor(%2, %3, alpha=0.5)
output %4 user
output %5 user
)";

class RecordedStream : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
    cuda::SetEngineForTesting(testing::MakePtxEngine(&made_));
    SetRecordingProbe([this] { return recorded_; });
  }
  void TearDown() override {
    SetRecordingProbe(nullptr);
    cuda::SetEngineForTesting(nullptr);
  }

  bool recorded_ = false;
  int made_ = 0;
};

TEST_P(RecordedStream, NothingIsCompiledAndNothingGivenUp) {
  absl::StatusOr<ir::Graph> graph = ir::Parse(GetParam());
  ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
  auto fused = fusion::FusedExecutable::Create(*graph, {});
  ASSERT_TRUE(fused.ok());
  const int at_first = made_;
  ASSERT_EQ(at_first, 1);
  const auto check = [&](std::int64_t offset) {
    std::vector<at::Tensor> inputs, outputs(graph->outputs.size());
    for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
      const std::int64_t size = outputs.size() == 2 && i < 2 ? 64 : 4104;
      inputs.push_back(at::randn({size + offset}).to(at::kBFloat16).slice(0, offset));
    }
    const absl::Status status = (*fused)->Run(inputs, {}, absl::MakeSpan(outputs));
    ASSERT_TRUE(status.ok()) << MessageOf(status);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const at::Tensor expected = at::add(inputs[2 * i], inputs[2 * i + 1], 0.5);
      EXPECT_TRUE(at::allclose(outputs[i], expected, 1e-2, 1e-2)) << i;
    }
    for (const PlanGroup& group : (*fused)->Explain()) EXPECT_NE(group.code, "");
  };
  recorded_ = true;
  check(1);
  EXPECT_EQ(made_, at_first);
  check(0);
  recorded_ = false;
  check(1);
  EXPECT_EQ(made_, at_first + 1);
  recorded_ = true;  // it is there now
  check(1);
  EXPECT_EQ(made_, at_first + 1);
}

INSTANTIATE_TEST_SUITE_P(Graphs, RecordedStream, ::testing::Values(kOneKernel, kTable),
                         [](const auto& info) { return info.index == 0 ? "one_kernel" : "table"; });

}  // namespace
}  // namespace framefuse
