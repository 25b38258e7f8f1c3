// The f32 functions that the printer of PTX has of its own, emulated, against libm in double, over a sweep of all
// floats and angles that are nearly multiples of pi / 2; at most 2 ULP. What the emulation makes exact (powers of two,
// reciprocals) is approximate on a device, to about 1 ULP.
#include <bit>

#include "backends/emit/cuda/form.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse::testing {
namespace {

struct Function {
  Op op;
  double (*exact)(double);
};

class PtxFunction : public ::testing::TestWithParam<Function> {};

std::vector<float> Sweep() {
  constexpr std::uint64_t kStep = 100003;
  std::vector<float> in = {0.0f,      -0.0f,   1.0f,    -1.0f,    INFINITY, -INFINITY, NAN,      1e-45f,
                           -1e-45f,   88.72f,  88.723f, -103.97f, -104.1f,  65536.0f,  65537.0f, -65537.0f,
                           102943.7f, 3.4e38f, 1e22f,   0.625f,   0.62499f, -87.001f,  87.001f,  16367173.0f * 0x1p72f};
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += kStep)
    in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (int quarter = 1; quarter < 400000; quarter += 97)
    in.push_back(static_cast<float>(quarter * 1.57079632679489662));
  return in;
}

TEST_P(PtxFunction, WithinTwoUlp) {
  Kernel kernel;
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(DType::kF32, false));
  b.Store(b.AddBuffer(DType::kF32, true), b.Unary(GetParam().op, x));
  std::vector<float> in = Sweep(), out(in.size());
  const LaunchShape shape = Flat(kernel, static_cast<std::int64_t>(in.size()));
  void* buffers[] = {in.data(), out.data()};
  const absl::Status ran = RunAsPtx(kernel, emit::ChooseForm(kernel, shape, true), shape, buffers,
                                    {static_cast<std::int64_t>(in.size()), static_cast<std::int64_t>(in.size())});
  ASSERT_TRUE(ran.ok()) << ran.message();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double want = GetParam().exact(static_cast<double>(in[i]));
    const auto rounded = static_cast<float>(want);
    if (out[i] == rounded || (std::isnan(out[i]) && std::isnan(want))) {
      EXPECT_EQ(std::signbit(out[i]) && want == 0, std::signbit(rounded) && want == 0) << in[i];
      continue;
    }
    // e^89 is infinite in f32, in eager too: its sigmoid is 0 and not a denormal.
    if (GetParam().op == Op::kSigmoid && std::fabs(want) < 0x1p-126) continue;
    const float least = std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded);
    ASSERT_LE(std::fabs(static_cast<double>(out[i]) - want), 2 * static_cast<double>(least))
        << Name(GetParam().op) << "(" << in[i] << ") is " << out[i] << " for " << want;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PtxFunction,
                         ::testing::Values(Function{Op::kExp, [](double x) { return std::exp(x); }},
                                           Function{Op::kExp2, [](double x) { return std::exp2(x); }},
                                           Function{Op::kSin, [](double x) { return std::sin(x); }},
                                           Function{Op::kCos, [](double x) { return std::cos(x); }},
                                           Function{Op::kTanh, [](double x) { return std::tanh(x); }},
                                           Function{Op::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
                                           Function{Op::kRsqrt, [](double x) { return 1 / std::sqrt(x); }}),
                         [](const auto& info) { return std::string(Name(info.param.op)); });

}  // namespace
}  // namespace framefuse::testing
