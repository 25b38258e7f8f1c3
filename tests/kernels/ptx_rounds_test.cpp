// PTX of long texts, which is written for a part and run for all (chunks of a row, segments, copies), extremes of
// halves two by two, partial results of warps, and forms that stand in for others where buffers are not aligned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/emit/ptx/print_ptx.h"
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

using emit::CudaForm;

std::string PtxOf(const Kernel& kernel, const CudaForm& form) {
  auto text = emit::PrintPtx(kernel, form, "kernel");
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}
Kernel OfRows() {
  Kernel kernel;
  kernel.skeleton = Skeleton::kRow;
  kernel.outer_rank = 1;
  return kernel;
}
bool HasRounds(const std::string& ptx) { return absl::StrContains(ptx, "nounroll"); }

// softmax of a row of halves, or of segments with a weight each.
Kernel Softmax(DType dtype, bool segments) {
  Kernel kernel = OfRows();
  kernel.segments = segments;
  Builder b(&kernel);
  const int from = b.AddBuffer(dtype, false, Inner::kContiguous, segments);
  const int weights = segments ? b.AddBuffer(DType::kF32, false, Inner::kUniform, true) : -1;
  const int to = b.AddBuffer(dtype, true, Inner::kContiguous, segments);
  const int least = b.AddBuffer(DType::kF32, true, Inner::kUniform);
  b.Begin(BlockKind::kLoop);
  ValueId x = b.Load(from);
  const ValueId most = b.Unary(Op::kReduceMax, x), few = b.Unary(Op::kReduceMin, x);
  b.Begin(BlockKind::kLoop);
  x = b.Load(from);
  const ValueId sum = b.Unary(Op::kReduceSum, b.Unary(Op::kExp, b.Binary(Op::kSub, x, most)));
  b.Begin(BlockKind::kLoop);
  x = b.Load(from);
  ValueId y = b.Binary(Op::kDiv, b.Unary(Op::kExp, b.Binary(Op::kSub, x, most)), sum);
  if (segments) y = b.Binary(Op::kMul, y, b.Load(weights));
  b.Store(to, y);
  b.Begin(BlockKind::kOnce);
  b.Store(least, few);
  return kernel;
}
LaunchShape ShapeOf(const Kernel& kernel, std::int64_t rows, std::int64_t segments, std::int64_t inner) {
  LaunchShape shape;
  shape.extents = {rows};
  shape.inner = inner;
  shape.segments = segments;
  for (const Buffer& b : kernel.buffers) {
    const std::int64_t size = kernel_ir::ElementSize(b.dtype), n = b.inner == Inner::kUniform ? 1 : inner;
    const std::int64_t parts = b.segmented ? segments : 1;
    shape.buffers.push_back({{n * parts * size}, b.segmented ? n * size : 0, n > 1 ? size : 0});
  }
  return shape;
}

std::vector<std::int64_t> SizesOf(const Kernel& kernel, const LaunchShape& shape) {
  std::vector<std::int64_t> sizes;
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b)
    sizes.push_back(shape.extents[0] * shape.buffers[b].outer[0] / kernel_ir::ElementSize(kernel.buffers[b].dtype));
  return sizes;
}

TEST(PtxRounds, ChunksOfARow) {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const Kernel kernel = Softmax(dtype, false);
    for (std::int64_t inner : {256, 1024, 2048, 4096}) {
      SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(inner));
      const LaunchShape shape = ShapeOf(kernel, 3, 1, inner);
      const CudaForm form = emit::ChooseForm(kernel, shape, true);
      const std::string ptx = PtxOf(kernel, form);
      if (dtype != DType::kF32) {
        EXPECT_EQ(HasRounds(ptx), form.chunks % 2 == 0 && form.full) << ptx;
      }
      const char* pairs = dtype == DType::kBF16 ? "max.NaN.bf16x2" : "max.NaN.f16x2";
      EXPECT_EQ(absl::StrContains(ptx, pairs), dtype != DType::kF32);
      ExpectSame(kernel, shape, SizesOf(kernel, shape), static_cast<unsigned>(inner), 20);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PtxRounds, Segments) {
  const Kernel kernel = Softmax(DType::kBF16, true);
  for (std::int64_t segments : {1, 2, 4}) {
    SCOPED_TRACE(segments);
    const LaunchShape shape = ShapeOf(kernel, 3, segments, 1024);
    const CudaForm form = emit::ChooseForm(kernel, shape, true);
    EXPECT_EQ(HasRounds(PtxOf(kernel, form)), segments == 2);
    ExpectSame(kernel, shape, SizesOf(kernel, shape), static_cast<unsigned>(segments), 20);
    if (HasFatalFailure()) return;
  }
}

// Places are products of 32 bits by 32 where strides are short.
TEST(PtxRounds, LongStridesHaveFormsOfTheirOwn) {
  const Kernel kernel = Softmax(DType::kBF16, false);
  LaunchShape shape = ShapeOf(kernel, 3, 1, 1024);
  for (const std::int64_t stride : {(std::int64_t{1} << 32) - 2, std::int64_t{1} << 32}) {
    shape.buffers[0].outer[0] = stride;
    const CudaForm form = emit::ChooseForm(kernel, shape, true);
    EXPECT_EQ(form.narrow, stride < std::int64_t{1} << 32);
    EXPECT_EQ(absl::StrContains(PtxOf(kernel, form), "mul.lo.s64"), !form.narrow);
  }
}

// Products of rows with numbers of their own, of the place and, unless copies are to lie near each other, of a buffer
// in steps.
Kernel Points(bool near) {
  Kernel kernel;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  const ValueId x = b.Load(b.AddBuffer(DType::kBF16, false)), w = b.Load(b.AddBuffer(DType::kBF16, false));
  const ValueId row = b.Load(b.AddBuffer(DType::kF32, false, Inner::kUniform));
  const ValueId apart = near ? row : b.Load(b.AddBuffer(DType::kF32, false, Inner::kStrided));
  const ValueId place = b.Cast(Type::kF32, b.Emit(Op::kIota, Type::kI64, {}));
  ValueId y = b.Binary(Op::kAdd, b.Binary(Op::kMul, x, w), b.Binary(Op::kMul, row, apart));
  for (int i = 0; i < 4; ++i) y = b.Binary(Op::kAdd, b.Unary(Op::kAbs, y), place);
  b.Store(b.AddBuffer(DType::kBF16, true), y);
  return kernel;
}

// Several copies of a thread, in forms of few threads. Buffers that are not aligned run in the plain form, on the grid
// of the other.
void ExpectSameCopies(const Kernel& kernel, std::int64_t inner, const CudaForm& form) {
  LaunchShape shape;
  shape.inner = inner;
  shape.extents = {32};
  shape.buffers = {{{2 * inner}, 0, 2}, {{0}, 0, 2}, {{4}, 0, 0}};
  std::vector<std::int64_t> sizes = {32 * inner, inner, 32};
  if (!form.near) {
    shape.buffers.push_back({{0}, 0, 12});
    sizes.push_back(inner * 3);
  }
  shape.buffers.push_back({{2 * inner}, 0, 2});
  sizes.push_back(32 * inner);
  auto interpreted = CpuKernel::Get(kernel, cpu::Engine::kInterpreter);
  ASSERT_TRUE(interpreted.ok());
  for (const std::int64_t shift : {0, 1}) {
    SCOPED_TRACE(shift);
    std::mt19937 random(5);
    std::vector<TestBuffer> first;
    for (std::size_t i = 0; i < sizes.size(); ++i) first.emplace_back(kernel.buffers[i].dtype, sizes[i] + 1, &random);
    std::vector<TestBuffer> second = first;
    std::vector<void*> a, c;
    for (TestBuffer& buffer : first) a.push_back(buffer.data() + shift * kernel_ir::ElementSize(buffer.dtype()));
    for (TestBuffer& buffer : second) c.push_back(buffer.data() + shift * kernel_ir::ElementSize(buffer.dtype()));
    const absl::Status ran = RunAsPtx(kernel, form, shape, a.data(), sizes);
    ASSERT_TRUE(ran.ok()) << ran.message();
    Launch(*interpreted, shape).Run(c.data());
    ExpectSameBuffers(kernel, &first, &second, 5, 1);
  }
}

TEST(PtxRounds, CopiesOfPoints) {
  for (const bool near : {false, true}) {
    const Kernel kernel = Points(near);
    for (const int unroll : {2, 4}) {
      for (const int vector : {4, 8}) {
        for (const bool narrow : {false, true}) {
          SCOPED_TRACE(absl::StrCat(near, " ", unroll, " ", vector, " ", narrow));
          CudaForm form;
          form.rank = 1;
          form.vector = vector;
          form.threads = 32;
          form.unroll = unroll;
          form.full = form.exact = true;
          form.near = near;
          form.narrow = narrow;
          EXPECT_TRUE(HasRounds(PtxOf(kernel, form)));
          // Copies that are not near go on in the next row.
          ExpectSameCopies(kernel, (near ? 1 : 2) * std::int64_t{32} * unroll * vector / (near ? 1 : 4), form);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Copies lie near each other where rows hold whole blocks, and nothing runs through them in steps.
TEST(PtxRounds, CopiesAreNearWhereRowsHoldBlocks) {
  for (const bool steps : {false, true}) {
    const Kernel kernel = Points(!steps);
    for (const std::int64_t inner : {4096, 4096 + 512}) {
      LaunchShape shape;
      shape.inner = inner;
      shape.extents = {1024};
      for (const Buffer& b : kernel.buffers) {
        const std::int64_t size = kernel_ir::ElementSize(b.dtype);
        shape.buffers.push_back({{b.inner == Inner::kContiguous ? inner * size : 0}, 0, size});
      }
      shape.buffers[1].outer[0] = 0;
      const CudaForm form = emit::ChooseForm(kernel, shape, true);
      EXPECT_EQ(form.near,
                !steps && form.full && inner % (std::int64_t{form.threads} * form.unroll * form.vector) == 0);
      EXPECT_EQ(form.near, !steps && inner == 4096) << inner;
    }
  }
}

// What all warps of a row have is combined by each thread where they are few, and by shuffles where they are many.
TEST(PtxRounds, PartsOfWarps) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI64, DType::kI32}) {
    Kernel kernel = OfRows();
    Builder b(&kernel);
    const int from = b.AddBuffer(dtype, false), sums = b.AddBuffer(dtype, true, Inner::kUniform),
              most = b.AddBuffer(dtype, true, Inner::kUniform);
    b.Begin(BlockKind::kLoop);
    const ValueId x = b.Load(from);
    const ValueId sum = b.Unary(Op::kReduceSum, x), max = b.Unary(Op::kReduceMax, x);
    b.Begin(BlockKind::kOnce);
    b.Store(sums, sum);
    b.Store(most, max);
    const LaunchShape shape = ShapeOf(kernel, 3, 1, 4096);
    auto interpreted = CpuKernel::Get(kernel, cpu::Engine::kInterpreter);
    ASSERT_TRUE(interpreted.ok());
    for (int threads = 32; threads <= 1024; threads *= 2) {
      SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(threads));
      CudaForm form = emit::ChooseForm(kernel, shape, true);
      form.row_threads = form.threads = threads;
      form.chunks = 0;
      form.resident = 0;
      form.full = false;
      std::mt19937 random(7);
      std::vector<TestBuffer> first;
      for (std::int64_t n : SizesOf(kernel, shape)) {
        first.emplace_back(kernel.buffers[first.size()].dtype, n, &random, false);
      }
      std::vector<TestBuffer> second = first;
      std::vector<void*> a, c;
      for (TestBuffer& buffer : first) a.push_back(buffer.data());
      for (TestBuffer& buffer : second) c.push_back(buffer.data());
      const absl::Status ran = RunAsPtx(kernel, form, shape, a.data(), SizesOf(kernel, shape));
      ASSERT_TRUE(ran.ok()) << ran.message();
      Launch(*interpreted, shape).Run(c.data());
      ExpectSameBuffers(kernel, &first, &second, 7, 100);
      if (HasFatalFailure()) return;
    }
  }
}

// A loop of rounds that also looks for extremes two by two: each round's are of its own words.
TEST(PtxRounds, ExtremesInRounds) {
  Kernel kernel = OfRows();
  Builder b(&kernel);
  const int from = b.AddBuffer(DType::kBF16, false), to = b.AddBuffer(DType::kBF16, true);
  const int sums = b.AddBuffer(DType::kF32, true, Inner::kUniform);
  b.Begin(BlockKind::kLoop);
  ValueId x = b.Load(from), y = x;
  const ValueId most = b.Unary(Op::kReduceMax, x);
  for (int i = 0; i < 6; ++i) y = b.Binary(Op::kAdd, b.Unary(Op::kAbs, y), x);
  const ValueId sum = b.Unary(Op::kReduceSum, y);
  b.Begin(BlockKind::kLoop);
  x = b.Load(from);
  b.Store(to, b.Binary(Op::kSub, x, most));
  b.Begin(BlockKind::kOnce);
  b.Store(sums, sum);
  for (std::int64_t inner : {1024, 2048, 4096}) {
    const LaunchShape shape = ShapeOf(kernel, 3, 1, inner);
    const std::string ptx = PtxOf(kernel, emit::ChooseForm(kernel, shape, true));
    EXPECT_TRUE(HasRounds(ptx) && absl::StrContains(ptx, "max.NaN.bf16x2")) << ptx;
    ExpectSame(kernel, shape, SizesOf(kernel, shape), static_cast<unsigned>(inner), 20);
    if (HasFatalFailure()) return;
  }
}

// What a softmax keeps of its exponentials is computed again where that is short: its text is then one of rounds.
TEST(PtxRounds, ScratchComputedAgain) {
  for (const bool cheap : {true, false}) {
    Kernel kernel = OfRows();
    Builder b(&kernel);
    const int from = b.AddBuffer(DType::kBF16, false), to = b.AddBuffer(DType::kBF16, true);
    const int scratch = b.AddScratch();
    b.Begin(BlockKind::kLoop);
    const ValueId most = b.Unary(Op::kReduceMax, b.Load(from));
    b.Begin(BlockKind::kLoop);
    ValueId e = b.Unary(Op::kExp, b.Binary(Op::kSub, b.Load(from), most));
    if (!cheap) e = b.Unary(Op::kTanh, b.Unary(Op::kTanh, e));
    b.Emit(Op::kScratchStore, Type::kF32, {e}, scratch);
    const ValueId sum = b.Unary(Op::kReduceSum, e);
    b.Begin(BlockKind::kLoop);
    b.Store(to, b.Binary(Op::kDiv, b.Emit(Op::kScratchLoad, Type::kF32, {}, scratch), sum));
    const LaunchShape shape = ShapeOf(kernel, 3, 1, 4096);
    const CudaForm form = emit::ChooseForm(kernel, shape, true);
    EXPECT_EQ(form.again, cheap);
    EXPECT_EQ(HasRounds(PtxOf(kernel, form)), cheap);
    ExpectSame(kernel, shape, SizesOf(kernel, shape), 3, 20);
  }
}

// Neighbours that are rounded to halves are rounded by one instruction, which also makes what is stored of them.
TEST(PtxRounds, PairsAreRoundedOnce) {
  Kernel kernel = OfRows();
  Builder b(&kernel);
  const int from = b.AddBuffer(DType::kBF16, false), with = b.AddBuffer(DType::kBF16, false);
  const int to = b.AddBuffer(DType::kBF16, true), sums = b.AddBuffer(DType::kF32, true, Inner::kUniform);
  b.Begin(BlockKind::kLoop);
  const ValueId x = b.Binary(Op::kAdd, b.Load(from), b.Load(with));
  b.Store(to, x);
  const auto half = static_cast<std::uint64_t>(DType::kBF16);
  const ValueId sum = b.Unary(Op::kReduceSum, b.Emit(Op::kWrap, Type::kF32, {x}, -1, half));
  b.Begin(BlockKind::kOnce);
  b.Store(sums, sum);
  const LaunchShape shape = ShapeOf(kernel, 3, 1, 1024);
  const CudaForm form = emit::ChooseForm(kernel, shape, true);
  const std::string ptx = PtxOf(kernel, form);
  int pairs = 0;
  for (std::size_t at = ptx.find("cvt.rn.bf16x2"); at != ptx.npos; at = ptx.find("cvt.rn.bf16x2", at + 1)) ++pairs;
  EXPECT_EQ(pairs, form.vector / 2 * form.chunks) << ptx;
  ExpectSame(kernel, shape, SizesOf(kernel, shape), 3, 20);
}

// Quotients of a row, which are made of doubles, are rounded as div.rn rounds them.
TEST(PtxRounds, QuotientsOfARow) {
  Kernel kernel = OfRows();
  Builder b(&kernel);
  const int from = b.AddBuffer(DType::kF32, false, Inner::kUniform),
            by = b.AddBuffer(DType::kF32, false, Inner::kUniform);
  const int to = b.AddBuffer(DType::kF32, true, Inner::kUniform),
            inverse = b.AddBuffer(DType::kF32, true, Inner::kUniform);
  b.Begin(BlockKind::kOnce);
  const ValueId x = b.Load(from), y = b.Load(by);
  b.Store(to, b.Binary(Op::kDiv, x, y));
  b.Store(inverse, b.Unary(Op::kReciprocal, y));
  const float infinity = INFINITY;
  std::vector<float> values = {0,       -0.0f,           1, -1, 3, infinity, -infinity, NAN, 1e-40f, -3e-45f,
                               3.4e38f, 1.17549435e-38f, 7};
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  std::vector<float> xs, ys;
  for (float u : values) {
    for (float v : values) xs.push_back(u), ys.push_back(v);
  }
  const auto rows = static_cast<std::int64_t>(xs.size());
  LaunchShape shape;
  shape.inner = 1;
  shape.extents = {rows};
  shape.buffers = {{{4}, 0, 0}, {{4}, 0, 0}, {{4}, 0, 0}, {{4}, 0, 0}};
  const CudaForm form = emit::ChooseForm(kernel, shape, true);
  EXPECT_FALSE(absl::StrContains(PtxOf(kernel, form), "div.rn"));
  std::vector<float> quotients(xs.size()), inverses(xs.size());
  void* buffers[] = {xs.data(), ys.data(), quotients.data(), inverses.data()};
  ASSERT_TRUE(RunAsPtx(kernel, form, shape, buffers, {rows, rows, rows, rows}).ok());
  const auto same = [](float a, float b) {
    return (a != a && b != b) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (std::size_t i = 0; i < xs.size(); ++i) {
    EXPECT_TRUE(same(quotients[i], xs[i] / ys[i])) << xs[i] << " / " << ys[i] << " is not " << quotients[i];
    EXPECT_TRUE(same(inverses[i], 1 / ys[i])) << "1 / " << ys[i] << " is not " << inverses[i];
  }
}

}  // namespace
}  // namespace framefuse::testing
