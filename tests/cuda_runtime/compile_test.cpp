// By whom kernels are made: nvJitLink where there is PTX, NVRTC for the rest, and for what was refused on the way.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "backends/cuda_runtime/cubin.h"
#include "backends/cuda_runtime/program.h"
#include "backends/kernel_ir/kernel.h"
#include "common/config.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse::cuda {
namespace {

using kernel_ir::Builder;
using kernel_ir::DType;
using kernel_ir::Kernel;
using kernel_ir::Op;
using ::testing::Contains;
using ::testing::HasSubstr;

// A library's counters.
struct StandIn {
  explicit StandIn(const std::string& name) {
    void* library = dlopen((std::string(FF_STAND_IN_FOLDER) + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
    made = static_cast<int*>(dlsym(library, "stand_in_made"));
    refuses = static_cast<int*>(dlsym(library, "stand_in_refuses"));
    found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) == library;
  }
  bool found = false;  // under its name: torch for CUDA has loaded the real ones
  int* made = nullptr;
  int* refuses = nullptr;
};

class CompileTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    driver_ = new StandIn("libcuda.so.1");
    nvrtc_ = new StandIn("libnvrtc.so.13");
    linker_ = new StandIn("libnvJitLink.so.13");
  }
  void SetUp() override {
    for (StandIn* library : {driver_, nvrtc_, linker_}) {
      if (!library->found) GTEST_SKIP() << "the real libraries are loaded";
      *library->made = *library->refuses = 0;
    }
    config().cuda_ptx.set(true);
    config().cache.set(false);
    mask_ = LogMask();
    SetLogEnabled(LogArtifact::kPerf, true);
    SetLogSink([this](LogArtifact, std::string_view text) { said_.emplace_back(text); });
  }
  void TearDown() override {
    SetLogSink({});
    SetLogMask(mask_);
    std::filesystem::remove_all(Folder());
  }
  static std::string Folder() { return ::testing::TempDir() + "framefuse_cubins_" + std::to_string(getpid()); }
  // From here on; what a compilation made in this process goes with its kernels.
  static void KeepOnDisk() {
    config().cache.set(true);
    config().cache_dir.set(Folder());
    SetLogEnabled(LogArtifact::kCache, true);
  }
  static std::vector<std::filesystem::path> Entries() {
    const std::filesystem::directory_iterator folder(Folder());
    return {begin(folder), end(folder)};
  }

  // Kernels of the exponential and of `other`, which is not printed in PTX where it is an inverse function.
  static absl::Status Compile(Op other) {
    std::vector<Kernel> kernels;
    for (Op op : {Op::kExp, other}) {
      Kernel kernel;
      kernel.name = "kernel of " + std::string(Name(op));
      Builder b(&kernel);
      const auto x = b.Load(b.AddBuffer(DType::kF32, false));
      b.Store(b.AddBuffer(DType::kF32, true), b.Unary(op, x));
      kernels.push_back(std::move(kernel));
    }
    std::vector<KernelRequest> requests;
    for (const Kernel& kernel : kernels) {
      kernel_ir::LaunchShape shape;
      shape.inner = 4096;
      shape.buffers = {{{}, 0, 4}, {{}, 0, 4}};
      requests.push_back({&kernel, emit::ChooseForm(kernel, shape, true)});
    }
    auto made = CompileKernels(0, requests);
    if (!made.ok()) return made.status();
    for (const auto& kernel : *made) {
      EXPECT_NE(kernel->function, nullptr);
      EXPECT_THAT(kernel->text, HasSubstr("__global__"));
    }
    return absl::OkStatus();
  }

  static inline StandIn *driver_, *nvrtc_, *linker_;
  std::vector<std::string> said_;
  std::uint64_t mask_ = 0;
};

TEST_F(CompileTest, OfPtxWhereItIsPrinted) {
  const absl::Status status = Compile(Op::kTanh);
  ASSERT_TRUE(status.ok()) << MessageOf(status);
  EXPECT_EQ(*linker_->made, 2);
  EXPECT_EQ(*nvrtc_->made, 0);
  EXPECT_THAT(said_, Contains(HasSubstr("cubins: 2 by nvJitLink, 0 by NVRTC, 2 in all")));
}

TEST_F(CompileTest, NvrtcDoesWhatIsNotPrinted) {
  ASSERT_TRUE(Compile(Op::kAtan).ok());
  EXPECT_EQ(*linker_->made, 1);
  EXPECT_EQ(*nvrtc_->made, 1);
  EXPECT_THAT(said_, Contains(HasSubstr("by NVRTC: kernel of atan")));
}

TEST_F(CompileTest, NvrtcDoesWhatTheLinkerRefuses) {
  *linker_->refuses = 1;
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(*linker_->made, 0);
  EXPECT_EQ(*nvrtc_->made, 2);
  EXPECT_THAT(said_, Contains(HasSubstr("by NVRTC: kernel of exp: its PTX was refused: nvJitLink: error 4\nits log")));
}

TEST_F(CompileTest, NvrtcDoesWhatTheDriverDoesNotLoad) {
  *driver_->refuses = 1;
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(*nvrtc_->made, 2);
  EXPECT_THAT(said_, Contains(HasSubstr("its PTX was refused: cuModuleLoadData")));
}

TEST_F(CompileTest, NvrtcDoesAllWherePtxIsOff) {
  config().cuda_ptx.set(false);
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(*linker_->made, 0);
  EXPECT_EQ(*nvrtc_->made, 2);
}

TEST_F(CompileTest, WhatIsOnDiskIsNotMadeAgain) {
  KeepOnDisk();
  ASSERT_TRUE(Compile(Op::kAtan).ok());
  EXPECT_THAT(said_, Contains(HasSubstr("miss: cubin-")).Times(2));
  ASSERT_TRUE(Compile(Op::kAtan).ok());
  EXPECT_EQ(*linker_->made, 1);
  EXPECT_EQ(*nvrtc_->made, 1);
  EXPECT_EQ(Entries().size(), 2u);
  EXPECT_THAT(said_, Contains(HasSubstr("hit: cubin-")).Times(2));
}

TEST_F(CompileTest, WhatIsDamagedOnDiskIsMadeAgain) {
  KeepOnDisk();
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  for (const auto& path : Entries()) std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(*linker_->made, 4);
  EXPECT_THAT(said_, Contains(HasSubstr("refused: cubin-")).Times(2));
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(*linker_->made, 4);
}

TEST_F(CompileTest, WhatAnotherCompilerMadeIsNotTaken) {
  KeepOnDisk();
  config().cuda_ptx.set(false);
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  config().cuda_ptx.set(true);
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(*nvrtc_->made, 2);
  EXPECT_EQ(*linker_->made, 2);
  for (const auto& cubin : CompileCubins({{"the same text", true}, {"the same text", true}}, 90))
    ASSERT_TRUE(cubin.ok());
  *linker_->made = 0;
  ASSERT_TRUE(CompileCubins({{"the same text", true}}, 90)[0].ok());
  EXPECT_EQ(*linker_->made, 0);
  ASSERT_TRUE(CompileCubins({{"the same text", true}}, 100)[0].ok());
  EXPECT_EQ(*linker_->made, 1);
  EXPECT_THAT(said_, Contains(HasSubstr("-arch=sm_90 -Xptxas=-O1")));
  *nvrtc_->made = 0;
  ASSERT_TRUE(CompileCubins({{"the same text", false}}, 90)[0].ok());
  EXPECT_EQ(*nvrtc_->made, 1);
}

TEST_F(CompileTest, WhatIsRefusedIsNotKept) {
  KeepOnDisk();
  *linker_->refuses = 1;
  ASSERT_TRUE(Compile(Op::kTanh).ok());
  EXPECT_EQ(Entries().size(), 2u);  // of NVRTC
}

TEST_F(CompileTest, WhatNobodyMakesIsAnError) {
  *linker_->refuses = *nvrtc_->refuses = 1;
  EXPECT_THAT(MessageOf(Compile(Op::kTanh)), HasSubstr("NVRTC: refused"));
}

}  // namespace
}  // namespace framefuse::cuda
