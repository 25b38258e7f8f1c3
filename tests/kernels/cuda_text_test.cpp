// The CUDA text of kernels of every skeleton and type compiles. Needs nvcc; skipped without. Owner: tests/kernels.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "backends/emit/cuda/print_cuda.h"
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

Kernel EveryFunction(Type type) {
  Kernel kernel;
  kernel.name = "every function";
  Builder b(&kernel);
  const DType dtype = type == Type::kF32 ? DType::kF32 : DType::kF64;
  const ValueId x = b.Load(b.AddBuffer(dtype, false)), y = b.Load(b.AddBuffer(dtype, false));
  const int out = b.AddBuffer(dtype, true);
  ValueId sum = x;
  for (int o = static_cast<int>(Op::kAdd); o <= static_cast<int>(Op::kFmod); ++o) {
    const Op op = static_cast<Op>(o);
    const auto cls = ClassOf(op);
    if (cls != kernel_ir::OpClass::kArith && cls != kernel_ir::OpClass::kMath) continue;
    if (op == Op::kSelect) continue;
    ValueId r = Arity(op) == 1 ? b.Unary(op, x) : Arity(op) == 2 ? b.Binary(op, x, y) : b.Emit(op, type, {x, y, x});
    sum = b.Binary(Op::kAdd, sum, r);
  }
  b.Store(out, sum);
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

TEST(CudaText, Compiles) {
  if (std::system("command -v nvcc > /dev/null 2>&1") != 0) GTEST_SKIP() << "no nvcc";
  std::string text = emit::CudaPrelude();
  int n = 0;
  for (const Kernel& kernel :
       {EveryFunction(Type::kF32), EveryFunction(Type::kF64), Conversions(), Softmax(false), Softmax(true)}) {
    auto printed = emit::PrintCuda(kernel, "k" + std::to_string(n++));
    ASSERT_TRUE(printed.ok()) << printed.status().message();
    text += *printed;
  }
  const std::string base = ::testing::TempDir() + "framefuse_cuda_" + std::to_string(getpid());
  std::ofstream(base + ".cu") << text;
  const std::string command = "nvcc --cubin -arch=sm_90 -o " + base + ".cubin " + base + ".cu 2> " + base + ".log";
  const int code = std::system(command.c_str());
  std::ifstream log(base + ".log");
  EXPECT_EQ(code, 0) << std::string(std::istreambuf_iterator<char>(log), {}) << text;
  for (const char* end : {".cu", ".cubin", ".log"}) std::remove((base + end).c_str());
}

}  // namespace
}  // namespace framefuse::testing
