// The CUDA text of kernels of every skeleton, type and form compiles: with nvcc, and with NVRTC to a cubin; their PTX
// is assembled by nvJitLink. Each is skipped where it is not installed.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/cuda_runtime/cubin.h"
#include "backends/cuda_runtime/driver.h"
#include "backends/cuda_runtime/linker.h"
#include "backends/emit/cuda/kernel_name.h"
#include "backends/emit/cuda/print_cuda.h"
#include "backends/emit/ptx/print_ptx.h"
#include "common/logging.h"
#include "common/status.h"
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

Kernel EveryFunction(Type type, DType dtype) {
  Kernel kernel;
  kernel.name = "every function";
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(dtype, false)), y = b.Load(b.AddBuffer(dtype, false));
  const int out = b.AddBuffer(dtype, true);
  ValueId sum = x;
  for (int o = static_cast<int>(Op::kAdd); o <= static_cast<int>(Op::kFmod); ++o) {
    const Op op = static_cast<Op>(o);
    const auto cls = ClassOf(op);
    if (cls != kernel_ir::OpClass::kArith && cls != kernel_ir::OpClass::kMath) continue;
    if (op == Op::kSelect || op == Op::kInRange || op == Op::kReciprocal14)
      continue;  // the latter is the x86 emitter's own
    ValueId r = Arity(op) == 1 ? b.Unary(op, x) : Arity(op) == 2 ? b.Binary(op, x, y) : b.Emit(op, type, {x, y, x});
    sum = b.Binary(Op::kAdd, sum, r);
  }
  for (Op op : {Op::kTanh, Op::kErf}) {  // beside 1, where halves have shorter ones
    sum = b.Binary(Op::kMul, sum, b.Binary(Op::kAdd, b.Unary(op, y), b.Const(type, 1)));
  }
  b.Store(out, sum);
  return kernel;
}

// One element of each row, named by an index.
Kernel Pick() {
  Kernel kernel;
  kernel.name = "pick";
  kernel.skeleton = Skeleton::kRow;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  const int x = b.AddBuffer(DType::kBF16, false), at = b.AddBuffer(DType::kI64, false, kernel_ir::Inner::kUniform);
  b.Begin(BlockKind::kLoop);
  const ValueId max = b.Unary(Op::kReduceMax, b.Load(x));
  b.Begin(BlockKind::kOnce);
  const ValueId picked = b.Binary(Op::kSub, b.LoadAt(x, b.Load(at)), max);
  b.Store(b.AddBuffer(DType::kF32, true, kernel_ir::Inner::kUniform), picked);
  return kernel;
}

Kernel Integers(Type type) {
  Kernel kernel;
  Builder b(&kernel);
  const DType dtype = type == Type::kI32 ? DType::kI32 : DType::kI64;
  const ValueId x = b.Load(b.AddBuffer(dtype, false)), y = b.Load(b.AddBuffer(dtype, false));
  ValueId sum = b.ConstInt(type, std::numeric_limits<std::int32_t>::min());
  for (Op op :
       {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kMinRaw, Op::kMaxRaw, Op::kAnd, Op::kOr, Op::kXor})
    sum = b.Binary(Op::kAdd, sum, b.Binary(op, x, y));
  for (Op op : {Op::kNeg, Op::kAbs, Op::kNot}) sum = b.Binary(Op::kAdd, sum, b.Unary(op, x));
  for (Op op : {Op::kShl, Op::kShr}) sum = b.Binary(Op::kAdd, sum, b.Emit(op, type, {x}, -1, 5));
  for (Op op : {Op::kLt, Op::kLe, Op::kEq, Op::kNe}) sum = b.Select(b.Compare(op, x, y), sum, x);
  b.Store(b.AddBuffer(dtype, true), sum);
  return kernel;
}

Kernel Conversions() {
  Kernel kernel;
  kernel.name = "conversions";
  Builder b(&kernel);
  for (int d = 0; d <= static_cast<int>(DType::kF64); ++d) {
    const ValueId v = b.Load(b.AddBuffer(static_cast<DType>(d), false));
    for (Type to : {Type::kPred, Type::kI32, Type::kI64, Type::kF32, Type::kF64}) {
      const DType storage[] = {DType::kBool, DType::kI8, DType::kI64, DType::kBF16, DType::kF64};
      b.Store(b.AddBuffer(storage[static_cast<int>(to)], true), b.Cast(to, v));
    }
  }
  return kernel;
}

Kernel Softmax(bool column) {
  Kernel kernel;
  kernel.name = "reductions";
  kernel.skeleton = column ? Skeleton::kColumn : Skeleton::kRow;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  const int x = b.AddBuffer(DType::kBF16, false), y = b.AddBuffer(DType::kBF16, true);
  b.Begin(BlockKind::kLoop);
  const ValueId max = b.Unary(Op::kReduceMax, b.Load(x));
  if (!column) {
    const int scratch = b.AddScratch();
    b.Begin(BlockKind::kLoop);
    const ValueId e = b.Unary(Op::kExp, b.Binary(Op::kSub, b.Load(x), max));
    b.Emit(Op::kScratchStore, Type::kF32, {e}, scratch);
    const ValueId sum = b.Unary(Op::kReduceSum, e);
    b.Begin(BlockKind::kLoop);
    b.Store(y, b.Binary(Op::kDiv, b.Emit(Op::kScratchLoad, Type::kF32, {}, scratch), sum));
  } else {
    b.Begin(BlockKind::kLoop);
    b.Store(y, max);
  }
  return kernel;
}

// A shape of `rows` rows of `inner` points, contiguous.
LaunchShape Rows(const Kernel& kernel, std::int64_t rows, std::int64_t inner) {
  LaunchShape shape = Flat(kernel, inner);
  if (kernel.outer_rank == 0) return shape;
  shape.extents = {rows};
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) {
    shape.buffers[b].outer = {inner * kernel_ir::ElementSize(kernel.buffers[b].dtype)};
  }
  return shape;
}

struct Formed {
  Kernel kernel;
  emit::CudaForm form;
};
std::vector<Formed> EveryKernel() {
  std::vector<Formed> out;
  for (const Kernel& kernel :
       {EveryFunction(Type::kF32, DType::kF32), EveryFunction(Type::kF32, DType::kBF16),
        EveryFunction(Type::kF32, DType::kF16), EveryFunction(Type::kF64, DType::kF64), Pick(), Integers(Type::kI32),
        Integers(Type::kI64), Conversions(), Softmax(false), Softmax(true)}) {
    for (std::int64_t inner : {7, 4096}) {
      for (bool constant : {false, true})
        out.push_back({kernel, emit::ChooseForm(kernel, Rows(kernel, 64, inner), constant)});
    }
  }
  return out;
}

std::string EveryText() {
  std::string text;
  int n = 0;
  for (const Formed& k : EveryKernel()) {
    auto printed = emit::PrintCuda(k.kernel, k.form, "k" + std::to_string(n++));
    EXPECT_TRUE(printed.ok()) << MessageOf(printed.status());
    text += *printed;
  }
  return emit::CudaProgram(text);
}

// A cache of its own for a test.
struct CacheFolder {
  CacheFolder() { setenv("FRAMEFUSE_CACHE_DIR", path.c_str(), 1); }
  ~CacheFolder() {
    std::filesystem::remove_all(path);
    unsetenv("FRAMEFUSE_CACHE_DIR");
  }
  std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(path), {}); }
  const std::string path = ::testing::TempDir() + "framefuse_cache_" + std::to_string(getpid());
};

// 64 rows leave processors of a large device empty, and keep those of a small one busy.
TEST(CudaForms, FollowTheNumberOfProcessors) {
  const Kernel softmax = Softmax(false);
  const LaunchShape shape = Rows(softmax, 64, 32768);
  EXPECT_EQ(emit::ChooseForm(softmax, shape, false).row_threads, 1024);
  EXPECT_EQ(emit::ChooseForm(softmax, shape, false, 48).row_threads, 512);
}

TEST(CudaText, KernelsAreNamedAfterTheirOperators) {
  const Kernel softmax = Softmax(false);
  const std::string name = emit::KernelName(softmax, "a body");
  EXPECT_EQ(name.rfind("ff_", 0), 0u);
  EXPECT_NE(name.find("_exp_"), std::string::npos) << name;
  EXPECT_NE(name.find("_sum_"), std::string::npos) << name;
  EXPECT_EQ(name, emit::KernelName(softmax, "a body"));
  EXPECT_NE(name, emit::KernelName(softmax, "another body"));
  for (const char c : name) EXPECT_TRUE(c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) << name;
  Kernel long_one = softmax;
  for (int i = 0; i < static_cast<int>(Op::kReduceMaxRaw); ++i) long_one.insts.push_back({static_cast<Op>(i)});
  EXPECT_LE(emit::KernelName(long_one, "").size(), 80u);
}

TEST(CudaText, NvccCompiles) {
  if (std::system("command -v nvcc > /dev/null 2>&1") != 0) GTEST_SKIP() << "no nvcc";
  const std::string text = EveryText();
  const std::string base = ::testing::TempDir() + "framefuse_cuda_" + std::to_string(getpid());
  std::ofstream(base + ".cu") << text;
  const std::string command = "nvcc --cubin -arch=sm_90 -o " + base + ".cubin " + base + ".cu 2> " + base + ".log";
  const int code = std::system(command.c_str());
  std::ifstream log(base + ".log");
  EXPECT_EQ(code, 0) << std::string(std::istreambuf_iterator<char>(log), {}) << text;
  for (const char* end : {".cu", ".cubin", ".log"}) std::remove((base + end).c_str());
}

TEST(CudaText, NvrtcMakesCubinsAndKeepsThem) {
  if (!cuda::GetNvrtc().ok()) GTEST_SKIP() << MessageOf(cuda::GetNvrtc().status());
  const CacheFolder folder;
  const std::string text = EveryText();
  std::vector<std::string> logs;
  const std::uint64_t mask = LogMask();
  SetLogEnabled(LogArtifact::kPerf, true);
  SetLogSink([&](LogArtifact, std::string_view log) { logs.emplace_back(log); });
  for (int architecture : {75, 90}) {
    auto made = cuda::CompileCubins({{text}, {emit::CudaProgram("__global__ void k() {}")}}, architecture);
    ASSERT_TRUE(made[0].ok()) << MessageOf(made[0].status());
    ASSERT_TRUE(made[1].ok()) << MessageOf(made[1].status());
    EXPECT_EQ(made[0]->substr(1, 3), "ELF");
    EXPECT_LT(made[1]->size(), made[0]->size());
    auto again = cuda::CompileCubins({{text}}, architecture);
    ASSERT_TRUE(again[0].ok());
    EXPECT_EQ(*again[0], *made[0]);
  }
  for (const std::string& log : logs) EXPECT_EQ(log.find("without its header"), log.npos) << log;
  logs.clear();
  EXPECT_TRUE(cuda::CompileCubins({{"__global__ void only_with_its_header() {}"}}, 90)[0].ok());
  if ((*cuda::GetNvrtc())->major >= 13) {
    ASSERT_FALSE(logs.empty());
    EXPECT_NE(logs.front().find("without its header"), std::string::npos) << logs.front();
  }
  SetLogSink({});
  SetLogMask(mask);
  auto wrong = cuda::CompileCubins({{text}, {"__global__ void k() { nonsense; }"}, {text}}, 90);
  EXPECT_TRUE(wrong[0].ok() && wrong[2].ok());
  EXPECT_NE(MessageOf(wrong[1].status()).find("nonsense"), std::string::npos) << MessageOf(wrong[1].status());
  EXPECT_EQ(folder.files(), 5);
}

TEST(PtxText, NvJitLinkAssemblesAndTheCacheKeeps) {
  if (!cuda::GetLinker().ok()) GTEST_SKIP() << MessageOf(cuda::GetLinker().status());
  const CacheFolder folder;
  for (int architecture : {emit::kLeastPtxArchitecture, 90}) {
    std::vector<cuda::CubinSource> sources;
    for (const Formed& k : EveryKernel()) {
      auto printed = emit::PrintPtx(k.kernel, k.form, "k");
      if (absl::IsUnimplemented(printed.status())) continue;
      ASSERT_TRUE(printed.ok()) << MessageOf(printed.status());
      sources.push_back({emit::PtxModule(*printed, architecture), true});
    }
    const std::size_t printed = sources.size();
    EXPECT_GT(printed, 0u);
    sources.push_back({emit::PtxModule(".visible .entry k() { nonsense.b32; ret; }\n", architecture), true});
    const auto made = cuda::CompileCubins(sources, architecture), again = cuda::CompileCubins(sources, architecture);
    for (std::size_t i = 0; i < printed; ++i) {
      ASSERT_TRUE(made[i].ok()) << MessageOf(made[i].status()) << sources[i].text;
      EXPECT_EQ(made[i]->substr(1, 3), "ELF");
      EXPECT_EQ(*made[i], *again[i]);
    }
    EXPECT_NE(MessageOf(made[printed].status()).find("nonsense"), std::string::npos)
        << MessageOf(made[printed].status());
  }
  EXPECT_GT(folder.files(), 1);
}

}  // namespace
}  // namespace framefuse::testing
