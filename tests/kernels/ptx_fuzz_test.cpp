// Random kernels of long rows and of several copies, in the forms that constant sizes are given, as emulated PTX
// against the interpreter: what small graphs never are (whole chunks, rounds, segments, scratch that is computed again,
// extremes two by two, pairs that are rounded). FF_FUZZ_SEED, FF_FUZZ_KERNELS.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "backends/emit/ptx/print_ptx.h"
#include "tests/common/fuzz_setting.h"
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

// Values are kept small, so that an error is of a wrong element and not of a rounding.
class RandomKernel {
 public:
  explicit RandomKernel(unsigned seed) : random_(seed), b_(&kernel_) {}
  const Kernel& kernel() const { return kernel_; }
  const LaunchShape& shape() const { return shape_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }

 protected:
  std::size_t Pick(std::size_t n) { return random_() % n; }
  ValueId One(const std::vector<ValueId>& of) { return of[Pick(of.size())]; }
  ValueId Operation(const std::vector<ValueId>& elements, const std::vector<ValueId>& rows);

  std::mt19937 random_;
  Kernel kernel_;
  Builder b_;
  LaunchShape shape_;
  std::vector<std::int64_t> sizes_;
};

ValueId RandomKernel::Operation(const std::vector<ValueId>& elements, const std::vector<ValueId>& rows) {
  const ValueId a = One(elements), c = Pick(3) == 0 && !rows.empty() ? One(rows) : One(elements);
  switch (Pick(9)) {
    case 0:
      return b_.Unary(Op::kAbs, a);
    case 1:
      return b_.Unary(Op::kNeg, a);
    case 2:
      return b_.Unary(Op::kTanh, a);
    case 3:
      return b_.Binary(Op::kMax, a, c);
    case 4:
      return b_.Binary(Op::kMin, a, c);
    case 5:
      return b_.Emit(Op::kWrap, Type::kF32, {a}, -1, static_cast<std::uint64_t>(DType::kBF16));
    case 6:
      return b_.Binary(Op::kMul, b_.Unary(Op::kTanh, a), c);
    default:
      return b_.Binary(Op::kMul, b_.Binary(Pick(2) == 0 ? Op::kAdd : Op::kSub, a, c), b_.Const(Type::kF32, 0.5));
  }
}

class RowKernel : public RandomKernel {
 public:
  explicit RowKernel(unsigned seed) : RandomKernel(seed) {
    constexpr DType kTypes[] = {DType::kBF16, DType::kBF16, DType::kF16, DType::kF32};
    constexpr std::int64_t kInner[] = {128, 256, 512, 1024, 2048, 4096, 1000};
    kernel_.skeleton = Skeleton::kRow;
    kernel_.outer_rank = 1;
    kernel_.segments = Pick(3) == 0;
    shape_.extents = {static_cast<std::int64_t>(2 + Pick(2))};
    shape_.inner = kInner[Pick(std::size(kInner))];
    shape_.segments = kernel_.segments ? std::int64_t{1} << Pick(3) : 1;
    for (std::size_t i = 0; i < 1 + Pick(3); ++i) {
      const bool repeats = i > 0 && Pick(3) == 0;
      inputs_.push_back(Buffer(kTypes[Pick(std::size(kTypes))], false, Inner::kContiguous, repeats));
    }
    b_.Begin(BlockKind::kOnce);
    if (Pick(2) == 0) rows_.push_back(b_.Load(Buffer(DType::kF32, false, Inner::kUniform, false)));
    const std::size_t loops = 1 + Pick(3);
    for (std::size_t l = 0; l < loops; ++l) Loop(l + 1 == loops);
    b_.Begin(BlockKind::kOnce);
    for (ValueId id : rows_) b_.Store(Buffer(DType::kF32, true, Inner::kUniform, false), id);
  }

 private:
  // `repeats`: the same for all rows. What is uniform is of a row or, if it is segmented, of a segment of one.
  int Buffer(DType dtype, bool written, Inner inner, bool repeats, bool of_segment = false) {
    const bool vector = inner == Inner::kContiguous, segmented = kernel_.segments && (vector || of_segment);
    const std::int64_t size = kernel_ir::ElementSize(dtype), n = vector ? shape_.inner : 1;
    const std::int64_t all = n * (segmented ? shape_.segments : 1);
    shape_.buffers.push_back({{repeats ? 0 : all * size}, segmented ? n * size : 0, vector ? size : 0});
    sizes_.push_back(all * (repeats ? 1 : shape_.extents[0]));
    return b_.AddBuffer(dtype, written, inner, segmented);
  }

  void Loop(bool last) {
    b_.Begin(BlockKind::kLoop);
    std::vector<ValueId> loads, elements;
    for (int i : inputs_) {
      if (loads.empty() || Pick(3) != 0) loads.push_back(b_.Load(i));
    }
    elements = loads;
    if (scratch_ >= 0 && Pick(2) == 0) elements.push_back(b_.Emit(Op::kScratchLoad, Type::kF32, {}, scratch_));
    if (kernel_.segments && Pick(2) == 0)
      elements.push_back(b_.Binary(Op::kAdd, loads[0],
                                   b_.Load(Buffer(DType::kF32, false, Inner::kUniform, false, /*of_segment=*/true))));
    for (std::size_t n = Pick(12); n > 0; --n) elements.push_back(Operation(elements, rows_));
    if (scratch_ < 0 && !last && Pick(2) == 0) {
      scratch_ = b_.AddScratch();
      b_.Emit(Op::kScratchStore, Type::kF32, {elements.back()}, scratch_);
    }
    if (last || Pick(3) == 0)
      b_.Store(Buffer(Pick(2) == 0 ? DType::kBF16 : DType::kF32, true, Inner::kContiguous, false), elements.back());
    std::vector<ValueId> sums, extremes;
    for (std::size_t n = Pick(3); n > 0; --n) sums.push_back(b_.Unary(Op::kReduceSum, One(elements)));
    for (std::size_t n = Pick(3); n > 0; --n)
      extremes.push_back(
          b_.Unary(Pick(2) == 0 ? Op::kReduceMax : Op::kReduceMin, One(Pick(2) == 0 ? loads : elements)));
    b_.Begin(BlockKind::kOnce);
    const double count = static_cast<double>(shape_.inner * shape_.segments);
    for (ValueId sum : sums) rows_.push_back(b_.Binary(Op::kMul, sum, b_.Const(Type::kF32, 1 / count)));
    rows_.insert(rows_.end(), extremes.begin(), extremes.end());
  }

  std::vector<int> inputs_;
  std::vector<ValueId> rows_;
  int scratch_ = -1;
};

// Of flat tensors, or of rows with vectors that repeat, numbers of their own and places that are counted.
class PointKernel : public RandomKernel {
 public:
  PointKernel(unsigned seed, std::int64_t block) : RandomKernel(seed) {
    const bool rows = Pick(2) == 0;
    kernel_.outer_rank = rows ? 1 : 0;
    shape_.inner = block * static_cast<std::int64_t>(1 + Pick(2)) / (rows && Pick(2) == 0 ? 4 : 1);
    if (rows) shape_.extents = {8};
    b_.Begin(BlockKind::kLoop);
    std::vector<ValueId> elements, of_rows;
    for (std::size_t i = 0; i < 1 + Pick(3); ++i) elements.push_back(b_.Load(Buffer(false, Inner::kContiguous)));
    if (rows && Pick(2) == 0) of_rows.push_back(b_.Load(Buffer(false, Inner::kUniform)));
    if (rows && Pick(4) == 0) elements.push_back(b_.Load(Buffer(false, Inner::kStrided)));
    if (Pick(4) == 0) {
      const ValueId place = b_.Cast(Type::kF32, b_.Emit(Op::kIota, Type::kI64, {}));
      elements.push_back(b_.Binary(Op::kMul, place, b_.Const(Type::kF32, 1.0 / 4096)));
    }
    for (std::size_t n = 2 + Pick(12); n > 0; --n) elements.push_back(Operation(elements, of_rows));
    for (std::size_t n = 1 + Pick(2); n > 0; --n) {
      const int to = Buffer(true, Inner::kContiguous);
      b_.Store(to, n == 1 ? elements.back() : One(elements));
    }
  }

 private:
  int Buffer(bool written, Inner inner) {
    constexpr DType kTypes[] = {DType::kBF16, DType::kBF16, DType::kF16, DType::kF32};
    const DType dtype = inner == Inner::kContiguous ? kTypes[Pick(std::size(kTypes))] : DType::kF32;
    const std::int64_t size = kernel_ir::ElementSize(dtype), step = inner == Inner::kStrided ? 3 : 1;
    const bool repeats = !written && inner != Inner::kUniform && Pick(3) == 0;
    const std::int64_t n = inner == Inner::kUniform ? 1 : shape_.inner * step;
    const std::int64_t rows = shape_.extents.empty() ? 1 : shape_.extents[0];
    shape_.buffers.push_back({{}, 0, inner == Inner::kUniform ? 0 : step * size});
    if (!shape_.extents.empty()) shape_.buffers.back().outer = {repeats ? 0 : n * size};
    sizes_.push_back(n * (repeats ? 1 : rows));
    return b_.AddBuffer(dtype, written, inner);
  }
};

struct Seen {
  int rounds = 0, again = 0, extremes = 0;
};

void Compare(const RandomKernel& made, const emit::CudaForm& form, unsigned seed, Seen* seen) {
  const Kernel& kernel = made.kernel();
  auto interpreted = CpuKernel::Get(kernel, cpu::Engine::kInterpreter);
  ASSERT_TRUE(interpreted.ok());
  std::mt19937 random(seed);
  std::vector<TestBuffer> first;
  for (std::size_t i = 0; i < made.sizes().size(); ++i)
    first.emplace_back(kernel.buffers[i].dtype, made.sizes()[i], &random, false);
  std::vector<TestBuffer> second = first;
  std::vector<void*> a, c;
  for (TestBuffer& buffer : first) a.push_back(buffer.data());
  for (TestBuffer& buffer : second) c.push_back(buffer.data());
  const absl::Status ran = RunAsPtx(kernel, form, made.shape(), a.data(), made.sizes());
  ASSERT_TRUE(ran.ok()) << ran.message() << "\n" << Print(kernel);
  Launch(*interpreted, made.shape()).Run(c.data());
  for (std::size_t k = 0; k < first.size(); ++k) {
    // A half that is rounded the other way.
    const double tolerance = 2 * ToleranceOf(DType::kBF16);
    for (std::int64_t i = 0; i < first[k].elements(); ++i) {
      ASSERT_TRUE(Close(first[k].At(i), second[k].At(i), tolerance, 0.02))
          << "buffer " << k << "[" << i << "] " << first[k].At(i) << " for " << second[k].At(i)
          << " FF_FUZZ_SEED=" << seed << "\n"
          << Print(kernel) << emit::PrintPtx(kernel, form, "kernel").value_or("");
    }
  }
  const std::string ptx = emit::PrintPtx(kernel, form, "kernel").value_or("");
  seen->rounds += absl::StrContains(ptx, "nounroll") ? 1 : 0;
  seen->again += form.again ? 1 : 0;
  seen->extremes += absl::StrContains(ptx, "bf16x2") ? 1 : 0;
}

TEST(PtxFuzz, LongRows) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 1));
  const auto count = static_cast<unsigned>(FuzzSetting("FF_FUZZ_KERNELS", 150));
  Seen seen;
  for (unsigned seed = first; seed < first + count; ++seed) {
    const RowKernel made(seed);
    ASSERT_TRUE(Verify(made.kernel()).ok()) << Verify(made.kernel()) << Print(made.kernel());
    emit::CudaForm form = emit::ChooseForm(made.kernel(), made.shape(), true);
    for (const bool again : {false, true}) {
      if (again && (form.chunks == 0 || made.kernel().scratch_rows == 0)) break;
      Compare(made, form, seed, &seen);
      if (HasFatalFailure()) return;
      form.again = !form.again;
    }
  }
  if (count < 100) return;
  EXPECT_GT(seen.rounds, 20);
  EXPECT_GT(seen.again, 5);
  EXPECT_GT(seen.extremes, 20);
}

// Rows that no registers hold, in forms of few threads.
TEST(PtxFuzz, WalkedRows) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 1));
  const auto count = static_cast<unsigned>(FuzzSetting("FF_FUZZ_KERNELS", 150));
  Seen seen;
  for (unsigned seed = first; seed < first + count; ++seed) {
    const RowKernel made(seed);
    if (made.kernel().segments) continue;
    emit::CudaForm form;
    form.vector = 1 << seed % 4;
    form.row_threads = seed % 2 == 0 ? 32 : 64;
    form.threads = 64;
    form.unroll = 2 << seed % 3;
    form.exact = made.shape().inner % form.vector == 0;
    form.narrow = seed % 5 != 0;
    form.rank = made.kernel().outer_rank;
    form.half = kernel_ir::RoundingHidesErrors(made.kernel());
    Compare(made, form, seed, &seen);
    if (HasFatalFailure()) return;
  }
}

// Copies of a thread in forms of few threads, which large tensors are given with more.
TEST(PtxFuzz, Copies) {
  const auto first = static_cast<unsigned>(FuzzSetting("FF_FUZZ_SEED", 1));
  const auto count = static_cast<unsigned>(FuzzSetting("FF_FUZZ_KERNELS", 150));
  Seen seen;
  int near = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    emit::CudaForm form;
    form.vector = seed % 2 == 0 ? 4 : 8;
    form.threads = 32;
    form.unroll = seed % 3 == 0 ? 4 : 2;
    form.full = form.exact = true;
    form.narrow = seed % 5 != 0;
    const std::int64_t block = std::int64_t{32} * form.unroll * form.vector;
    const PointKernel made(seed, block);
    ASSERT_TRUE(Verify(made.kernel()).ok()) << Verify(made.kernel()) << Print(made.kernel());
    form.rank = made.kernel().outer_rank;
    form.half = kernel_ir::RoundingHidesErrors(made.kernel());
    const auto strided = [](const kernel_ir::Buffer& b) { return b.inner == Inner::kStrided; };
    const auto& buffers = made.kernel().buffers;
    form.near = made.shape().inner % block == 0 && std::none_of(buffers.begin(), buffers.end(), strided);
    near += form.near ? 1 : 0;
    Compare(made, form, seed, &seen);
    if (HasFatalFailure()) return;
  }
  if (count < 100) return;
  EXPECT_GT(seen.rounds, 50);
  EXPECT_GT(near, 20);
}

}  // namespace
}  // namespace framefuse::testing
