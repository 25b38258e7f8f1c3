// The expanded f32 functions against libm in double, over a sweep of all floats; at most 2 ULP.
#include "backends/emit/expand_math.h"
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

double UlpError(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e9;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return 1e9;
  const float next = std::nextafter(std::fabs(rounded), INFINITY);
  return std::fabs(static_cast<double>(got) - want) /
         (static_cast<double>(next) - std::fabs(static_cast<double>(rounded)));
}

struct Function {
  Op op;
  double (*exact)(double);
};

class ExpandedFunction : public ::testing::TestWithParam<Function> {};

TEST_P(ExpandedFunction, WithinTwoUlp) {
  Kernel kernel;
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(DType::kF32, false));
  b.Store(b.AddBuffer(DType::kF32, true), b.Unary(GetParam().op, x));
  auto compiled = CpuKernel::Get(kernel);
  ASSERT_TRUE(compiled.ok());
  constexpr std::uint64_t kStep = 1009;
  std::vector<float> in, out;
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += kStep)
    in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float special :
       {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 88.72283f, 88.7229f, -103.97f, 3.4e38f}) {
    in.push_back(special);
  }
  out.resize(in.size());
  void* buffers[] = {in.data(), out.data()};
  Launch(*compiled, Flat(kernel, static_cast<std::int64_t>(in.size()))).Run(buffers);
  double worst = 0;
  float where = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double error = UlpError(out[i], GetParam().exact(static_cast<double>(in[i])));
    if (error > worst) worst = error, where = in[i];
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 2) << "at " << where << " for " << GetParam().exact(static_cast<double>(where));
}

Kernel OnHalves(Op op, DType dtype) {
  Kernel kernel;
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(dtype, false));
  b.Store(b.AddBuffer(dtype, true), b.Unary(op, x));
  return kernel;
}

// `kernel` gives every number of that type within one unit in the last place.
void ExpectEveryHalf(const CpuKernel& kernel, const Function& function, DType dtype) {
  std::vector<std::uint16_t> in(1 << 16), out(1 << 16), exact(1 << 16);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  void* buffers[] = {in.data(), out.data()};
  const std::shared_ptr<const CpuKernel> unowned(std::shared_ptr<const CpuKernel>(), &kernel);
  Launch(unowned, Flat(kernel.ir(), static_cast<std::int64_t>(in.size()))).Run(buffers);
  for (std::size_t i = 0; i < in.size(); ++i) {
    float value = 0;
    kernel_ir::LoadLanes(dtype, reinterpret_cast<const char*>(&in[i]), 0, &value, 1);
    auto want = static_cast<float>(function.exact(static_cast<double>(value)));
    kernel_ir::StoreLanes(dtype, reinterpret_cast<char*>(&exact[i]), 0, &want, 1);
    float got = 0;
    kernel_ir::LoadLanes(dtype, reinterpret_cast<const char*>(&out[i]), 0, &got, 1);
    if (std::isnan(want) && std::isnan(got)) continue;
    // e^89 is infinite in f32, in eager too: sigmoid(-89) is 0 and not a denormal.
    if (std::fabs(got - want) < 1.17549435e-38f && std::signbit(got) == std::signbit(want)) continue;
    // Neighbouring halves of one sign have neighbouring bits.
    ASSERT_LE(std::abs(static_cast<int>(out[i]) - static_cast<int>(exact[i])), 1)
        << Name(dtype) << " " << value << ": " << got << " for " << want;
  }
}

// The short forms of kernels that write halves.
TEST_P(ExpandedFunction, OfEveryHalf) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    auto compiled = CpuKernel::Get(OnHalves(GetParam().op, dtype));
    ASSERT_TRUE(compiled.ok());
    ExpectEveryHalf(**compiled, GetParam(), dtype);
  }
}

// As for a processor with kReciprocal14, interpreted: there it is exact.
TEST_P(ExpandedFunction, OfEveryHalfWithApproximateReciprocals) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Kernel expanded = emit::ExpandMath(OnHalves(GetParam().op, dtype), true);
    auto interpreted = CpuKernel::Get(expanded, cpu::Engine::kInterpreter);
    ASSERT_TRUE(interpreted.ok());
    ExpectEveryHalf(**interpreted, GetParam(), dtype);
  }
}

// A half that two kernels compute is one number, whatever else they write.
TEST_P(ExpandedFunction, RoundsAlikeInEveryKernel) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto run = [&](bool widened) {
      Kernel kernel;
      Builder b(&kernel);
      const ValueId x = b.Load(b.AddBuffer(dtype, false));
      const std::uint64_t made = dtype == DType::kBF16 ? kernel_ir::kToBFloat16 : kernel_ir::kToF16;
      ValueId y = b.Emit(GetParam().op, Type::kF32, {x}, -1, made);
      if (widened) y = b.Emit(Op::kWrap, Type::kF32, {y}, -1, static_cast<std::uint64_t>(dtype));
      b.Store(b.AddBuffer(widened ? DType::kF32 : dtype, true), y);
      std::vector<std::uint16_t> in(1 << 16);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
      std::vector<float> out(in.size());
      void* buffers[] = {in.data(), out.data()};
      auto compiled = CpuKernel::Get(kernel);
      EXPECT_TRUE(compiled.ok());
      Launch(*compiled, Flat(kernel, static_cast<std::int64_t>(in.size()))).Run(buffers);
      std::vector<float> wide(in.size());
      kernel_ir::LoadLanes(kernel.buffers[1].dtype, reinterpret_cast<const char*>(out.data()),
                           kernel_ir::ElementSize(kernel.buffers[1].dtype), wide.data(), static_cast<int>(in.size()));
      return wide;
    };
    const std::vector<float> stored = run(false), widened = run(true);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      ASSERT_TRUE(stored[i] == widened[i] || (std::isnan(stored[i]) && std::isnan(widened[i]))) << i;
    }
  }
}

// e^(x - m) has a shorter form where m is the largest x of the row, and only there.
TEST(ExpandedFunction, ExponentialOfADifference) {
  for (const bool own : {true, false}) {
    for (const bool scratch : {true, false}) {
      Kernel kernel;
      kernel.skeleton = Skeleton::kRow;
      kernel.outer_rank = 1;
      Builder b(&kernel);
      const int x = b.AddBuffer(DType::kF32, false), y = b.AddBuffer(DType::kF32, false);
      b.Begin(BlockKind::kLoop);
      const ValueId twice = b.Binary(Op::kAdd, b.Load(x), b.Load(x));
      const int row = scratch ? b.AddScratch() : -1;
      if (scratch) b.Emit(Op::kScratchStore, Type::kF32, {twice}, row);
      const ValueId most = b.Unary(Op::kReduceMax, own ? twice : b.Load(y));
      b.Begin(BlockKind::kLoop);
      const ValueId again =
          scratch ? b.Emit(Op::kScratchLoad, Type::kF32, {}, row) : b.Binary(Op::kAdd, b.Load(x), b.Load(x));
      const ValueId below = b.Binary(Op::kSub, again, most);
      b.Store(b.AddBuffer(DType::kF32, true), b.Unary(Op::kExp, below));
      EXPECT_EQ(IsBelowRowMax(kernel, below), own);
      auto compiled = CpuKernel::Get(kernel);
      ASSERT_TRUE(compiled.ok());
      std::vector<float> in, other(257, -3), out(257);
      for (int i = 0; i < 257; ++i) in.push_back(static_cast<float>(i) * 0.25f - 40);
      void* buffers[] = {in.data(), other.data(), out.data()};
      LaunchShape shape = Flat(kernel, 257);
      shape.extents = {1};
      for (BufferStrides& strides : shape.buffers) strides.outer = {257 * 4};
      Launch(*compiled, shape).Run(buffers);
      const double m = own ? 2.0 * static_cast<double>(in.back()) : -3;
      for (std::size_t i = 0; i < in.size(); ++i) {
        EXPECT_LE(UlpError(out[i], std::exp(2.0 * static_cast<double>(in[i]) - m)), 2) << in[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpandedFunction,
                         ::testing::Values(Function{Op::kExp, [](double x) { return std::exp(x); }},
                                           Function{Op::kExpm1, [](double x) { return std::expm1(x); }},
                                           Function{Op::kLog, [](double x) { return std::log(x); }},
                                           Function{Op::kLog1p, [](double x) { return std::log1p(x); }},
                                           Function{Op::kTanh, [](double x) { return std::tanh(x); }},
                                           Function{Op::kErf, [](double x) { return std::erf(x); }},
                                           Function{Op::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }}),
                         [](const auto& info) { return std::string(Name(info.param.op)); });

}  // namespace
}  // namespace framefuse::testing
