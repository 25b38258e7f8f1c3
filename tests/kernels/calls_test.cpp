// Machine code that calls out (functions and casts that are not expanded), in bodies with more live values around the
// calls than there are registers: flat, in rows with accumulators, in segments and in columns. What is compared with
// is plain C++ in double, not the interpreter, which shares the callee.
#include <limits>

#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

struct Call {
  Op op;
  double (*exact)(double, double);
  double low, high;  // of the operands
};

const Call kCalls[] = {
    {Op::kExp, [](double x, double) { return std::exp(x); }, -8, 8},
    {Op::kExpm1, [](double x, double) { return std::expm1(x); }, -8, 8},
    {Op::kExp2, [](double x, double) { return std::exp2(x); }, -8, 8},
    {Op::kLog, [](double x, double) { return std::log(x); }, 0.01, 50},
    {Op::kLog1p, [](double x, double) { return std::log1p(x); }, -0.9, 50},
    {Op::kLog2, [](double x, double) { return std::log2(x); }, 0.01, 50},
    {Op::kLog10, [](double x, double) { return std::log10(x); }, 0.01, 50},
    {Op::kTanh, [](double x, double) { return std::tanh(x); }, -4, 4},
    {Op::kErf, [](double x, double) { return std::erf(x); }, -4, 4},
    {Op::kErfc, [](double x, double) { return std::erfc(x); }, -4, 4},
    {Op::kSigmoid, [](double x, double) { return 1 / (1 + std::exp(-x)); }, -8, 8},
    {Op::kSin, [](double x, double) { return std::sin(x); }, -10, 10},
    {Op::kCos, [](double x, double) { return std::cos(x); }, -10, 10},
    {Op::kTan, [](double x, double) { return std::tan(x); }, -1.2, 1.2},
    {Op::kAsin, [](double x, double) { return std::asin(x); }, -0.95, 0.95},
    {Op::kAcos, [](double x, double) { return std::acos(x); }, -0.95, 0.95},
    {Op::kAtan, [](double x, double) { return std::atan(x); }, -10, 10},
    {Op::kSinh, [](double x, double) { return std::sinh(x); }, -4, 4},
    {Op::kCosh, [](double x, double) { return std::cosh(x); }, -4, 4},
    {Op::kPow, [](double x, double y) { return std::pow(x, y); }, 0.1, 4},
    {Op::kAtan2, [](double x, double y) { return std::atan2(x, y); }, 0.1, 9},
    {Op::kFmod, [](double x, double y) { return std::fmod(x, y); }, 0.5, 9},
};

constexpr int kInputs = 10;

template <typename T>
std::vector<std::vector<T>> Draw(const Call& call, std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(call.low, call.high);
  std::vector<std::vector<T>> inputs(kInputs, std::vector<T>(n));
  for (auto& row : inputs) {
    for (T& x : row) x = static_cast<T>(uniform(random));
  }
  return inputs;
}

// What the bodies compute at one point: products that stay live across two calls, and the calls' results.
struct Body {
  const Call& call;
  Builder& b;
  std::vector<ValueId> x, products;
  ValueId first = kernel_ir::kNoValue, second = kernel_ir::kNoValue;

  Body(const Call& c, Builder* builder, std::vector<ValueId> inputs) : call(c), b(*builder), x(std::move(inputs)) {
    for (std::size_t k = 0; k < kInputs; ++k) products.push_back(b.Binary(Op::kMul, x[k], x[(k + 1) % kInputs]));
    first = Apply(x[0], x[1]);
    second = Apply(x[2], x[3]);
  }
  ValueId Apply(ValueId a, ValueId c) { return Arity(call.op) == 1 ? b.Unary(call.op, a) : b.Binary(call.op, a, c); }
  // first * x0 + second * x9 + all products: everything was live across both calls.
  ValueId Sum() {
    ValueId sum = b.Binary(Op::kAdd, b.Binary(Op::kMul, first, x[0]), b.Binary(Op::kMul, second, x[9]));
    for (ValueId p : products) sum = b.Binary(Op::kAdd, sum, p);
    return sum;
  }
};

// The same at point i in double; `size` is the sum of the terms' magnitudes.
template <typename T>
double Exact(const Call& call, const std::vector<std::vector<T>>& x, std::size_t i, double* size) {
  const auto at = [&](std::size_t k) { return static_cast<double>(x[k][i]); };
  std::vector<double> terms = {call.exact(at(0), at(1)) * at(0), call.exact(at(2), at(3)) * at(9)};
  for (std::size_t k = 0; k < kInputs; ++k) terms.push_back(at(k) * at((k + 1) % kInputs));
  double sum = 0;
  for (double t : terms) sum += t, *size += std::fabs(t);
  return sum;
}

template <typename T>
double Tolerance(double size) {
  return size * 16 * static_cast<double>(std::numeric_limits<T>::epsilon());
}

std::shared_ptr<const CpuKernel> Compile(const Kernel& kernel) {
  auto made = CpuKernel::Get(kernel);
  EXPECT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ((*made)->is_machine_code(), emit::HostSupportsX86Emitter()) << (*made)->reason();
  return *std::move(made);
}

template <typename T>
void RunFlat(const Call& call) {
  const DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  Kernel kernel;
  kernel.name = std::string(Name(call.op));
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  std::vector<ValueId> x;
  for (int k = 0; k < kInputs; ++k) x.push_back(b.Load(b.AddBuffer(dtype, false)));
  Body body(call, &b, x);
  b.Store(b.AddBuffer(dtype, true), body.Sum());
  b.Store(b.AddBuffer(dtype, true), body.first);
  for (std::size_t n : {1, 7, 8, 9, 100}) {
    auto inputs = Draw<T>(call, n, 3);
    std::vector<T> sum(n), first(n);
    std::vector<void*> buffers;
    for (auto& row : inputs) buffers.push_back(row.data());
    buffers.push_back(sum.data());
    buffers.push_back(first.data());
    Launch(Compile(kernel), Flat(kernel, static_cast<std::int64_t>(n))).Run(buffers.data());
    for (std::size_t i = 0; i < n; ++i) {
      double size = 0;
      const double exact = Exact(call, inputs, i, &size);
      ASSERT_NEAR(static_cast<double>(sum[i]), exact, Tolerance<T>(size)) << kernel.name << " " << n << "[" << i << "]";
      const double one = call.exact(static_cast<double>(inputs[0][i]), static_cast<double>(inputs[1][i]));
      ASSERT_NEAR(static_cast<double>(first[i]), one, Tolerance<T>(std::fabs(one) + 1e-3)) << kernel.name;
    }
  }
}

// Rows with two accumulators and, after the loop, calls on their uniform results; `segments` halves the row.
void RunRows(const Call& call, bool segments) {
  constexpr std::int64_t kRows = 3;
  Kernel kernel;
  kernel.skeleton = Skeleton::kRow;
  kernel.outer_rank = 1;
  kernel.segments = segments;
  kernel.name = std::string(Name(call.op));
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  std::vector<ValueId> x;
  for (int k = 0; k < kInputs; ++k) x.push_back(b.Load(b.AddBuffer(DType::kF32, false, Inner::kContiguous, segments)));
  Body body(call, &b, x);
  const ValueId sum = b.Unary(Op::kReduceSum, body.Sum()), first = b.Unary(Op::kReduceMax, body.first);
  b.Begin(BlockKind::kOnce);
  const ValueId level = b.Emit(Op::kSigmoid, Type::kF32, {first});
  const ValueId sine = b.Emit(Op::kSin, Type::kF32, {first});
  b.Store(b.AddBuffer(DType::kF32, true, Inner::kUniform), sum);
  b.Store(b.AddBuffer(DType::kF32, true, Inner::kUniform), b.Binary(Op::kAdd, level, sine));
  for (std::int64_t n : {4, 16, 26, 62}) {
    auto inputs = Draw<float>(call, static_cast<std::size_t>(kRows * n), 5);
    std::vector<float> sums(kRows), levels(kRows);
    LaunchShape shape;
    shape.inner = segments ? n / 2 : n;
    shape.segments = segments ? 2 : 1;
    shape.extents = {kRows};
    std::vector<void*> buffers;
    for (auto& row : inputs) {
      buffers.push_back(row.data());
      shape.buffers.push_back({{n * 4}, segments ? n * 2 : 0, 4});
    }
    for (auto* out : {&sums, &levels}) {
      buffers.push_back(out->data());
      shape.buffers.push_back({{4}, 0, 0});
    }
    Launch(Compile(kernel), shape).Run(buffers.data());
    for (std::int64_t r = 0; r < kRows; ++r) {
      double size = 0, exact = 0, most = -INFINITY;
      for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        exact += Exact(call, inputs, at, &size);
        most = std::max(most, call.exact(static_cast<double>(inputs[0][at]), static_cast<double>(inputs[1][at])));
      }
      const auto row = static_cast<std::size_t>(r);
      ASSERT_NEAR(static_cast<double>(sums[row]), exact, Tolerance<float>(size)) << kernel.name << " " << n;
      const double want = 1 / (1 + std::exp(-most)) + std::sin(most);
      ASSERT_NEAR(static_cast<double>(levels[row]), want, 1e-6 * (3 + std::fabs(most))) << kernel.name << " " << n;
    }
  }
}

void RunColumns(const Call& call) {
  Kernel kernel;
  kernel.skeleton = Skeleton::kColumn;
  kernel.outer_rank = 1;
  kernel.name = std::string(Name(call.op));
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  std::vector<ValueId> x;
  for (int k = 0; k < kInputs; ++k) x.push_back(b.Load(b.AddBuffer(DType::kF32, false)));
  Body body(call, &b, x);
  const ValueId sum = b.Unary(Op::kReduceSum, body.Sum());
  b.Begin(BlockKind::kLoop);
  const int out = b.AddBuffer(DType::kF32, true);
  b.Store(out, b.Binary(Op::kAdd, sum, b.Emit(Op::kCos, Type::kF32, {sum})));
  for (std::int64_t columns : {1, 8, 13}) {
    constexpr std::int64_t kRows = 19;
    auto inputs = Draw<float>(call, static_cast<std::size_t>(kRows * columns), 7);
    std::vector<float> sums(static_cast<std::size_t>(columns));
    LaunchShape shape;
    shape.inner = columns;
    shape.extents = {kRows};
    std::vector<void*> buffers;
    for (auto& row : inputs) {
      buffers.push_back(row.data());
      shape.buffers.push_back({{columns * 4}, 0, 4});
    }
    buffers.push_back(sums.data());
    shape.buffers.push_back({{0}, 0, 4});
    Launch(Compile(kernel), shape).Run(buffers.data());
    for (std::int64_t c = 0; c < columns; ++c) {
      double size = 0, exact = 0;
      for (std::int64_t r = 0; r < kRows; ++r)
        exact += Exact(call, inputs, static_cast<std::size_t>(r * columns + c), &size);
      // cos moves by as much as the sum itself is off.
      ASSERT_NEAR(static_cast<double>(sums[static_cast<std::size_t>(c)]), exact + std::cos(exact),
                  2 * Tolerance<float>(size))
          << kernel.name;
    }
  }
}

class MachineCodeCalls : public ::testing::TestWithParam<Call> {};

TEST_P(MachineCodeCalls, Flat) { RunFlat<float>(GetParam()); }
TEST_P(MachineCodeCalls, FlatDouble) { RunFlat<double>(GetParam()); }
TEST_P(MachineCodeCalls, Rows) { RunRows(GetParam(), false); }
TEST_P(MachineCodeCalls, Segments) { RunRows(GetParam(), true); }
TEST_P(MachineCodeCalls, Columns) { RunColumns(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, MachineCodeCalls, ::testing::ValuesIn(kCalls),
                         [](const auto& info) { return std::string(Name(info.param.op)); });

TEST(MachineCodeCalls, TableIsComplete) {
  std::size_t math = 0;
  for (int o = 0; o <= static_cast<int>(Op::kFmod); ++o) {
    math += ClassOf(static_cast<Op>(o)) == kernel_ir::OpClass::kMath ? 1 : 0;
  }
  EXPECT_EQ(math, std::size(kCalls));
}

// Casts between 64-bit integers and floats are calls, too.
TEST(MachineCodeCalls, CastsAmongLiveValues) {
  Kernel kernel;
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  const ValueId n = b.Load(b.AddBuffer(DType::kI64, false)), f = b.Load(b.AddBuffer(DType::kF64, false));
  std::vector<ValueId> live;
  for (int k = 1; k <= 16; ++k) live.push_back(b.Binary(Op::kMul, f, b.Const(Type::kF64, k)));
  ValueId sum = b.Binary(Op::kAdd, b.Cast(Type::kF64, n), b.Cast(Type::kF64, b.Cast(Type::kI64, f)));
  for (ValueId v : live) sum = b.Binary(Op::kAdd, sum, v);
  b.Store(b.AddBuffer(DType::kF64, true), sum);
  constexpr std::int64_t kPoints = 23;
  std::vector<std::int64_t> ints(kPoints);
  std::vector<double> floats(kPoints), out(kPoints);
  for (std::size_t i = 0; i < kPoints; ++i) {
    ints[i] = (static_cast<std::int64_t>(i) - 11) * 1'000'000'007;
    floats[i] = (static_cast<double>(i) - 11) * 1234.5;
  }
  void* buffers[] = {ints.data(), floats.data(), out.data()};
  Launch(Compile(kernel), Flat(kernel, kPoints)).Run(buffers);
  for (std::size_t i = 0; i < kPoints; ++i) {
    EXPECT_EQ(out[i], static_cast<double>(ints[i]) + std::trunc(floats[i]) + floats[i] * 136);
  }
}

}  // namespace
}  // namespace framefuse::testing
