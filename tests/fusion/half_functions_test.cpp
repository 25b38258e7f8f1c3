// The short functions that CUDA's kernels have where only halves are written, on every bf16 and f16 number, in
// emulation: as near to the exact value as a half's rounding and 2^-16 allow, NaN, infinities, zeros and denormals
// included.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backends/fusion/fused_executable.h"
#include "common/status.h"
#include "tests/kernels/cuda_emulation.h"
#include "tests/kernels/ptx_emulation.h"

namespace framefuse {
namespace {

struct Function {
  const char* name;
  const char* call;
  double (*exact)(double);
};

double Tanh(double x) { return std::tanh(x); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// Eager's formula in f32 has lost what is below one rounding beside 1.
double Gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }

const Function kFunctions[] = {
    {"exp", "aten.exp(%0)", [](double x) { return std::exp(x); }},
    {"expm1", "aten.expm1(%0)", [](double x) { return std::expm1(x); }},
    {"log", "aten.log(%0)", [](double x) { return std::log(x); }},
    {"log1p", "aten.log1p(%0)", [](double x) { return std::log1p(x); }},
    {"sigmoid", "aten.sigmoid(%0)", Sigmoid},
    {"tanh", "aten.tanh(%0)", Tanh},
    {"erf", "aten.erf(%0)", [](double x) { return std::erf(x); }},
    {"reciprocal", "aten.reciprocal(%0)", [](double x) { return 1 / x; }},
    {"sqrt", "aten.sqrt(%0)", [](double x) { return std::sqrt(x); }},
    {"gelu", "aten.gelu(%0)", Gelu},
};

class HalfFunctions : public ::testing::TestWithParam<Function> {
 protected:
  void SetUp() override {
    if (!testing::HostCompilerExists()) GTEST_SKIP() << "no C++ compiler";
  }
  void TearDown() override { cuda::SetEngineForTesting(nullptr); }

  static at::Tensor Run(const char* dtype, const at::Tensor& x) {
    auto graph = ir::Parse(absl::StrCat("graph \"g\" functional\ninput %0: ", dtype, "[65536] argument\n%1: ", dtype,
                                        "[65536] = ", GetParam().call, "\noutput %1 user\n"));
    EXPECT_TRUE(graph.ok()) << MessageOf(graph.status());
    auto fused = fusion::FusedExecutable::Create(*std::move(graph), {});
    EXPECT_TRUE(fused.ok()) << MessageOf(fused.status());
    std::vector<at::Tensor> out(1);
    const absl::Status status = (*fused)->Run({x}, {}, absl::MakeSpan(out));
    EXPECT_TRUE(status.ok()) << MessageOf(status);
    return out[0];
  }

  // `bits`: of the fraction; `least`: the smallest number above 0; `most`: the largest.
  static void ExpectNear(double x, double got, int bits, double least, double most) {
    const double exact = GetParam().exact(x);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(got)) << GetParam().name << "(" << x << ") is " << got;
      return;
    }
    if (std::abs(exact) > most) {
      EXPECT_GE(std::abs(got), most * (1 - std::ldexp(1, -bits))) << GetParam().name << "(" << x << ")";
      return;
    }
    double allowed = std::abs(exact) * (std::ldexp(1, -bits - 1) + std::ldexp(1, -16)) + least / 2;
    if (GetParam().exact == Tanh && bits == 7) allowed += std::abs(exact) * std::ldexp(1, -11);
    if (GetParam().exact == Gelu) allowed += std::abs(x) * std::ldexp(1, -24);
    EXPECT_LE(std::abs(got - exact), allowed) << GetParam().name << "(" << x << ") is " << got << " for " << exact;
    if (x == 0 && exact == 0) {
      EXPECT_EQ(std::signbit(got), std::signbit(x)) << GetParam().name << " of a zero";
    }
  }
};

TEST_P(HalfFunctions, OfEveryNumber) {
  cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
  const at::Tensor all = at::arange(65536, at::kInt).to(at::kShort);
  for (const bool brain : {true, false}) {
    const at::Tensor x = all.view(brain ? at::kBFloat16 : at::kHalf);
    const at::Tensor y = Run(brain ? "bf16" : "f16", x).to(at::kDouble), wide = x.to(at::kDouble);
    const double* from = wide.const_data_ptr<double>();
    const double* to = y.const_data_ptr<double>();
    for (int i = 0; i < 65536 && !HasFailure(); ++i) {
      // Where eager's f32 formulas have inf * 0, or 1 / inf.
      if (std::isinf(from[i]) && GetParam().exact == Gelu) continue;
      if (from[i] < -88.7 && GetParam().exact == Sigmoid && to[i] == 0) continue;
      brain ? ExpectNear(from[i], to[i], 7, std::ldexp(1, -133), std::ldexp(255, 120))
            : ExpectNear(from[i], to[i], 10, std::ldexp(1, -24), 65504);
    }
  }
}

// One kernel of a program may be PTX and another CUDA C++: a half that both compute is the same.
TEST_P(HalfFunctions, AreTheSameInPtx) {
  const at::Tensor all = at::arange(65536, at::kInt).to(at::kShort);
  for (const bool brain : {true, false}) {
    const at::Tensor x = all.view(brain ? at::kBFloat16 : at::kHalf);
    int printed = 0;
    cuda::SetEngineForTesting(testing::MakePtxEngine(&printed));
    const at::Tensor ptx = Run(brain ? "bf16" : "f16", x);
    EXPECT_EQ(printed, 1);
    cuda::SetEngineForTesting(testing::MakeEmulatedEngine());
    const at::Tensor text = Run(brain ? "bf16" : "f16", x);
    const at::Tensor differ = ptx.view(at::kShort).ne(text.view(at::kShort)).logical_and(text.isnan().logical_not());
    EXPECT_EQ(differ.sum().item().toLong(), 0) << "first at " << x.masked_select(differ)[0].item().toDouble();
    EXPECT_TRUE(at::equal(ptx.isnan(), text.isnan()));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HalfFunctions, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace framefuse
