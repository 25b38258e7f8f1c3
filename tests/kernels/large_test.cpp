// More elements than 2^31: places in memory are computed with 64 bits everywhere. The memory of a large buffer is one
// small piece of a file, mapped again and again, except for its end, which is its own.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

constexpr std::int64_t kPiece = 32 << 20, kPieces = (1ll << 31) / kPiece;
constexpr std::int64_t kEnd = 1000;  // elements past 2^31
constexpr std::int64_t kCount = (1ll << 31) + kEnd;

// Bytes: the first 2^31 share one piece's memory.
class LargeBuffer {
 public:
  LargeBuffer() {
    file_ = memfd_create("large", 0);
    if (file_ < 0 || ftruncate(file_, kPiece) != 0) return;
    void* all = mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return;
    data_ = static_cast<std::uint8_t*>(all);
    bool ok = true;
    for (std::int64_t p = 0; p < kPieces; ++p) {
      ok = ok &&
           mmap(data_ + p * kPiece, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) != MAP_FAILED;
    }
    ok = ok && mprotect(data_ + kPieces * kPiece, kSize - kPieces * kPiece, PROT_READ | PROT_WRITE) == 0;
    if (!ok) Unmap();
  }
  ~LargeBuffer() {
    Unmap();
    if (file_ >= 0) close(file_);
  }
  std::uint8_t* data() { return data_; }  // null: the system does not do that
  std::uint8_t* end() { return data_ + kPieces * kPiece; }

 private:
  static constexpr std::size_t kSize = kCount + 4096;
  void Unmap() {
    if (data_ != nullptr) munmap(data_, kSize);
    data_ = nullptr;
  }
  std::uint8_t* data_ = nullptr;
  int file_ = -1;
};

class Large : public ::testing::Test {
 protected:
  void SetUp() override {
    if (in_.data() == nullptr || out_.data() == nullptr) GTEST_SKIP() << "no such memory here";
    std::memset(in_.data(), 1, kPiece);
    for (std::int64_t i = 0; i < kEnd; ++i) in_.end()[i] = static_cast<std::uint8_t>(i % 100);
    std::memset(out_.end(), 0xaa, kEnd + 64);
  }
  LargeBuffer in_, out_;
};

TEST_F(Large, Pointwise) {
  Kernel kernel;
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(DType::kU8, false));
  b.Store(b.AddBuffer(DType::kU8, true), b.Binary(Op::kAdd, x, b.ConstInt(Type::kI32, 3)));
  auto compiled = CpuKernel::Get(kernel);
  ASSERT_TRUE(compiled.ok());
  void* buffers[] = {in_.data(), out_.data()};
  Launch(*compiled, Flat(kernel, kCount)).Run(buffers);
  EXPECT_EQ(out_.data()[12345], 4);
  for (std::int64_t i = 0; i < kEnd; ++i) ASSERT_EQ(out_.end()[i], i % 100 + 3) << i;
  for (std::int64_t i = kEnd; i < kEnd + 64; ++i) ASSERT_EQ(out_.end()[i], 0xaa) << i;
}

// One row, and its sum in 64 bits.
TEST_F(Large, Row) {
  Kernel kernel;
  kernel.skeleton = Skeleton::kRow;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  const ValueId x = b.Cast(Type::kI64, b.Load(b.AddBuffer(DType::kU8, false)));
  const ValueId sum = b.Unary(Op::kReduceSum, x);
  b.Begin(BlockKind::kOnce);
  b.Store(b.AddBuffer(DType::kI64, true, Inner::kUniform), sum);
  auto compiled = CpuKernel::Get(kernel);
  ASSERT_TRUE(compiled.ok());
  std::int64_t got = 0, want = 1ll << 31;
  for (std::int64_t i = 0; i < kEnd; ++i) want += i % 100;
  LaunchShape shape = Flat(kernel, kCount);
  shape.extents = {1};
  for (BufferStrides& strides : shape.buffers) strides.outer = {0};
  void* buffers[] = {in_.data(), &got};
  Launch(*compiled, shape).Run(buffers);
  EXPECT_EQ(got, want);
}

// Rows whose distance is past 2^31 bytes: two of 500 elements.
TEST_F(Large, FarRows) {
  Kernel kernel;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(DType::kU8, false));
  b.Store(b.AddBuffer(DType::kU8, true), b.Binary(Op::kAdd, x, b.ConstInt(Type::kI32, 5)));
  auto compiled = CpuKernel::Get(kernel);
  ASSERT_TRUE(compiled.ok());
  LaunchShape shape = Flat(kernel, 500);
  shape.extents = {2};
  for (BufferStrides& strides : shape.buffers) strides.outer = {(1ll << 31) + 500};
  void* buffers[] = {in_.data(), out_.data()};
  Launch(*compiled, shape).Run(buffers);
  for (std::int64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(out_.data()[i], 6) << i;
    ASSERT_EQ(out_.end()[500 + i], (500 + i) % 100 + 5) << i;
    ASSERT_EQ(out_.end()[i], 0xaa) << i;
  }
}

}  // namespace
}  // namespace framefuse::testing
