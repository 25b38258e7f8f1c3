// A process that has no NVRTC: what is printed as PTX runs as kernels; what is not, and what the assembler refuses, is
// named with the user's line, and runs as ATen operators.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda_runtime/engine.h"
#include "backends/fusion/fused_executable.h"
#include "common/config.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

void* Load(const char* name) {
  return dlopen((std::string(FF_STAND_IN_FOLDER) + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

class WithoutNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    void* linker = Load("libnvJitLink.so.13");
    ASSERT_TRUE(Load("libcuda.so.1") != nullptr && linker != nullptr) << dlerror();
    if (dlopen("libnvJitLink.so.13", RTLD_NOW | RTLD_LOCAL) != linker) GTEST_SKIP() << "the real libraries are loaded";
    if (cuda::GetNvrtc().ok()) GTEST_SKIP() << "there is an NVRTC";
    refuses_ = static_cast<int*>(dlsym(linker, "stand_in_refuses"));
    *refuses_ = 0;
    config().cache.set(false);
    config().cuda_ptx.set(true);
    mask_ = LogMask();
    SetLogEnabled(LogArtifact::kPerf, true);
    SetLogEnabled(LogArtifact::kFusion, true);
    SetLogSink([this](LogArtifact, std::string_view text) { said_.emplace_back(text); });
  }
  void TearDown() override {
    SetLogSink({});
    SetLogMask(mask_);
    config().cuda_ptx.set(true);
  }

  // Two groups: a matrix product is between them.
  static absl::Status Compile(const std::string& function) {
    auto graph = ir::Parse(R"(graph "g" functional
input %0: f32[32, 32]{device=cuda:0} argument
%1: f32[32, 32]{device=cuda:0} = aten.exp(%0)  # model.py:7 in forward: y = x.exp()
%3: f32[32, 32]{device=cuda:0} = aten.mm(%1, %0)  # model.py:8 in forward: y = y @ x
%4: f32[32, 32]{device=cuda:0} = aten.)" +
                           function + R"((%3)  # model.py:9 in forward: return f(y)
output %4 user
)");
    if (!graph.ok()) return graph.status();
    return fusion::FusedExecutable::Create(*std::move(graph), {}).status();
  }

  int* refuses_ = nullptr;
  std::vector<std::string> said_;
  std::uint64_t mask_ = 0;
};

TEST_F(WithoutNvrtc, PtxIsEnough) {
  ASSERT_TRUE(cuda::TheEngine().Serves(c10::Device("cuda:0")).ok());
  const absl::Status status = Compile("tanh");
  ASSERT_TRUE(status.ok()) << MessageOf(status);
  EXPECT_THAT(said_, Contains(HasSubstr("cubins: 2 by nvJitLink, 0 by NVRTC, 2 in all")));
  EXPECT_THAT(said_, Not(Contains(HasSubstr("given up"))));
}

TEST_F(WithoutNvrtc, WhatIsNotPrintedRunsAsOperators) {
  const absl::Status status = Compile("atan");
  ASSERT_TRUE(status.ok()) << MessageOf(status);
  EXPECT_THAT(said_, Contains(AllOf(HasSubstr("by NVRTC: pointwise: atan (model.py:9)"), HasSubstr("no PTX"))));
  EXPECT_THAT(said_, Contains(AllOf(HasSubstr("given up"), HasSubstr("atan (model.py:9)"), HasSubstr("nvrtc"))));
  EXPECT_THAT(said_, Not(Contains(AllOf(HasSubstr("given up"), HasSubstr("model.py:7")))));
}

TEST_F(WithoutNvrtc, WhatIsRefusedIsNamedWithItsLine) {
  *refuses_ = 1;
  const absl::Status status = Compile("tanh");
  ASSERT_TRUE(status.ok()) << MessageOf(status);
  for (const char* name : {"exp (model.py:7)", "tanh (model.py:9)"}) {
    EXPECT_THAT(said_, Contains(AllOf(HasSubstr(name), HasSubstr("its PTX was refused"), HasSubstr("its log"))));
    EXPECT_THAT(said_, Contains(AllOf(HasSubstr("given up"), HasSubstr(name))));
  }
}

TEST_F(WithoutNvrtc, NobodyServesWherePtxIsOff) {
  config().cuda_ptx.set(false);
  EXPECT_FALSE(cuda::TheEngine().Serves(c10::Device("cuda:0")).ok());
}

}  // namespace
}  // namespace framefuse
