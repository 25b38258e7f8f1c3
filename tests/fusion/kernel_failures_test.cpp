// A kernel that does not compile, or does not launch: the log names it with the user's line, its nodes run as ATen
// operators, the other kernels stay, and the process goes on.
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/fused_executable.h"
#include "backends/runtime/aten_sequence.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two groups: a matrix product is between them.
constexpr char kGraph[] = R"(graph "g" functional
input %0: f32[32, 32] argument
%1: f32[32, 32] = aten.exp(%0)  # model.py:7 in forward: y = x.exp() + x
%2: f32[32, 32] = aten.add.Tensor(%1, %0, alpha=1)  # model.py:7 in forward: y = x.exp() + x
%3: f32[32, 32] = aten.mm(%2, %0)  # model.py:8 in forward: y = y @ x
%4: f32[32, 32] = aten.sin(%3)  # model.py:9 in forward: return y.sin() * 2
%5: f32[32, 32] = aten.mul.Scalar(%4, 2)  # model.py:9 in forward: return y.sin() * 2
output %5 user
)";

bool Has(const kernel_ir::Kernel& kernel, kernel_ir::Op op) {
  return std::any_of(kernel.insts.begin(), kernel.insts.end(), [&](const auto& inst) { return inst.op == op; });
}

// For CPU tensors: refuses what takes exponentials when it is compiled or launched; "launching" does the work here, as
// the graph above says.
class Refusing final : public cuda::Engine {
 public:
  Refusing(bool compile, bool launch) : compile_(compile), launch_(launch) {}
  absl::Status Serves(c10::Device device) override {
    return device.is_cpu() ? absl::OkStatus() : absl::UnimplementedError("not for this test");
  }
  int Processors(c10::Device) override { return emit::kUsualProcessors; }
  absl::StatusOr<std::vector<std::shared_ptr<const cuda::CudaKernel>>> Compile(
      c10::Device, absl::Span<const cuda::KernelRequest> requests) override {
    std::vector<std::shared_ptr<const cuda::CudaKernel>> made;
    for (const cuda::KernelRequest& r : requests) {
      if (compile_ && Has(*r.kernel, kernel_ir::Op::kExp)) return absl::InternalError("error: expected a ';'");
      auto kernel = std::make_shared<cuda::CudaKernel>();
      kernel->ir = *r.kernel;
      kernel->form = r.form;
      made.push_back(std::move(kernel));
    }
    return made;
  }
  absl::Status Launch(const cuda::CudaKernel& kernel, const emit::CudaLaunch&, bool, void* const* buffers) override {
    if (launch_ && Has(kernel.ir, kernel_ir::Op::kExp)) return absl::InternalError("out of resources");
    ++launches;
    const auto* in = static_cast<const float*>(buffers[0]);
    auto* out = static_cast<float*>(buffers[1]);
    const bool exponential = Has(kernel.ir, kernel_ir::Op::kExp);
    for (int i = 0; i < 32 * 32; ++i) out[i] = exponential ? std::exp(in[i]) + in[i] : std::sin(in[i]) * 2;
    return absl::OkStatus();
  }
  static inline int launches = 0;

 private:
  const bool compile_, launch_;
};

class KernelFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    mask_ = LogMask();
    SetLogEnabled(LogArtifact::kFusion, true);
    sink_ = SetLogSink([this](LogArtifact, std::string_view text) { said_.emplace_back(text); });
    Refusing::launches = 0;
  }
  void TearDown() override {
    cuda::SetEngineForTesting(nullptr);
    SetLogSink(std::move(sink_));
    SetLogMask(mask_);
  }

  // Runs the graph twice with that engine; each time the results are those of the ATen operators.
  void ExpectRight(bool compile, bool launch) {
    cuda::SetEngineForTesting(std::make_unique<Refusing>(compile, launch));
    auto graph = ir::Parse(kGraph);
    ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
    auto aten = AtenSequence::Create(*graph, {});
    auto fused = fusion::FusedExecutable::Create(*std::move(graph), {});
    ASSERT_TRUE(aten.ok() && fused.ok()) << MessageOf(fused.status());
    for (int run = 0; run < 2; ++run) {
      // Small, for a sine of large numbers is as far off as their last bits are.
      const std::vector<at::Tensor> inputs = {at::randn({32, 32}).mul(0.125)};
      std::vector<at::Tensor> got(1), want(1);
      const absl::Status status = (*fused)->Run(inputs, {}, absl::MakeSpan(got));
      ASSERT_TRUE(status.ok()) << MessageOf(status);
      ASSERT_TRUE((*aten)->Run(inputs, {}, absl::MakeSpan(want)).ok());
      EXPECT_TRUE(at::allclose(got[0], want[0], 1e-5, 1e-5));
    }
  }

  std::vector<std::string> GivenUp() const {
    std::vector<std::string> found;
    for (const std::string& text : said_) {
      if (text.find("given up") != std::string::npos) found.push_back(text);
    }
    return found;
  }

 private:
  std::uint64_t mask_ = 0;
  LogSink sink_;
  std::vector<std::string> said_;
};

TEST_F(KernelFailures, NoneFails) {
  ExpectRight(false, false);
  EXPECT_TRUE(GivenUp().empty());
  EXPECT_EQ(Refusing::launches, 4);
}

TEST_F(KernelFailures, OneDoesNotCompile) {
  ExpectRight(true, false);
  EXPECT_THAT(GivenUp(), ::testing::ElementsAre(AllOf(HasSubstr("exp"), HasSubstr("model.py:7"), Not(HasSubstr(":9")),
                                                      HasSubstr("expected a ';'"))));
  EXPECT_EQ(Refusing::launches, 2);  // the other one's
}

TEST_F(KernelFailures, OneDoesNotLaunch) {
  ExpectRight(false, true);
  EXPECT_THAT(GivenUp(), ::testing::ElementsAre(AllOf(HasSubstr("exp"), HasSubstr("model.py:7"), Not(HasSubstr(":9")),
                                                      HasSubstr("out of resources"))));
  EXPECT_EQ(Refusing::launches, 2);
}

}  // namespace
}  // namespace framefuse
