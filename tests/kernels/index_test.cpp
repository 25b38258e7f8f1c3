// Indices of extremes, numbers of rows and points, and loads from a place that a row names: on each engine.
#include <gtest/gtest.h>

#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

using kernel_ir::BlockKind;
using kernel_ir::Builder;
using kernel_ir::Inner;
using kernel_ir::Skeleton;

ValueId WhereFound(Builder& b, ValueId x, ValueId extreme, ValueId place, Type index) {
  ValueId hit = b.Compare(Op::kEq, x, extreme);
  if (kernel_ir::IsFloat(b.TypeOf(x))) hit = b.Emit(Op::kOr, Type::kPred, {hit, b.Compare(Op::kNe, x, x)});
  return b.Unary(Op::kReduceMin, b.Select(hit, place, b.ConstInt(index, INT32_MAX)));
}

TEST(Indices, OfRows) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI64, DType::kU8}) {
    for (Type index : {Type::kI32, Type::kI64}) {
      Kernel kernel;
      kernel.skeleton = Skeleton::kRow;
      kernel.outer_rank = 1;
      Builder b(&kernel);
      const int in = b.AddBuffer(dtype, false), out = b.AddBuffer(DType::kI64, true, Inner::kUniform);
      b.Begin(BlockKind::kLoop);
      const ValueId extreme = b.Unary(Op::kReduceMax, b.Load(in));
      b.Begin(BlockKind::kLoop);
      const ValueId at = WhereFound(b, b.Load(in), extreme, b.Emit(Op::kIota, index, {}), index);
      b.Begin(BlockKind::kOnce);
      b.Store(out, b.Cast(Type::kI64, at));
      const std::int64_t size = kernel_ir::ElementSize(dtype);
      for (std::int64_t n : {1, 7, 64, 257, 1024, 4096}) {
        SCOPED_TRACE(std::string(Name(dtype)) + " n " + std::to_string(n));
        LaunchShape shape;
        shape.inner = n;
        shape.extents = {3};
        shape.buffers = {{{n * size}, 0, size}, {{8}, 0, 0}};
        ExpectSame(kernel, shape, {3 * n, 3}, static_cast<unsigned>(n));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Indices, OfColumns) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32}) {
    for (Type index : {Type::kI32, Type::kI64}) {
      Kernel kernel;
      kernel.skeleton = Skeleton::kColumn;
      kernel.outer_rank = 1;
      Builder b(&kernel);
      const int in = b.AddBuffer(dtype, false), known = b.AddBuffer(dtype, false);
      const int out = b.AddBuffer(index == Type::kI32 ? DType::kI32 : DType::kI64, true);
      b.Begin(BlockKind::kLoop);
      const ValueId low = b.Binary(Op::kMin, b.Load(in), b.Load(known));  // found where the known one is no more
      const ValueId at = WhereFound(b, low, b.Load(known), b.Emit(Op::kRowIota, index, {}), index);
      b.Begin(BlockKind::kLoop);
      b.Store(out, at);
      const std::int64_t size = kernel_ir::ElementSize(dtype);
      for (std::int64_t rows : {1, 7, 8, 21, 100}) {
        for (std::int64_t n : {1, 9, 64, 130}) {
          SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(rows) + " x " + std::to_string(n));
          LaunchShape shape;
          shape.inner = n;
          shape.extents = {rows};
          shape.buffers = {{{n * size}, 0, size}, {{0}, 0, size}, {{0}, 0, kernel_ir::Is64Bit(index) ? 8 : 4}};
          ExpectSame(kernel, shape, {rows * n, n, n}, static_cast<unsigned>(rows * n));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// A table of 256 rows, one of which each row of the kernel names.
Kernel Gather(Skeleton skeleton, DType dtype, Inner inner) {
  Kernel kernel;
  kernel.skeleton = skeleton;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  const int index = b.AddBuffer(DType::kU8, false, Inner::kUniform), table = b.AddBuffer(dtype, false, inner);
  const int other = b.AddBuffer(DType::kF32, false), out = b.AddBuffer(DType::kF32, true);
  const Type stride = Type::kI64;
  const auto sum = [&] {
    const ValueId row = b.Cast(Type::kI64, b.Load(index));
    const ValueId checked = b.Emit(Op::kInRange, Type::kI64, {row, b.ConstInt(Type::kI64, 256)});
    const ValueId from = b.Binary(Op::kMul, checked, b.Emit(Op::kParam, stride, {}, 0));
    return b.Binary(Op::kAdd, b.Cast(Type::kF32, b.LoadFrom(table, from)), b.Load(other));
  };
  b.AddParam(stride);
  b.Begin(BlockKind::kLoop);
  if (skeleton == Skeleton::kRow) {
    const ValueId most = b.Unary(Op::kReduceMax, sum());
    b.Begin(BlockKind::kLoop);
    b.Store(out, b.Binary(Op::kSub, sum(), most));
  } else {
    b.Store(out, sum());
  }
  return kernel;
}

TEST(Gathers, OfRowsThatIndicesName) {
  for (Skeleton skeleton : {Skeleton::kPointwise, Skeleton::kRow}) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI8, DType::kI64}) {
      for (Inner inner : {Inner::kContiguous, Inner::kStrided}) {
        const Kernel kernel = Gather(skeleton, dtype, inner);
        ASSERT_TRUE(Verify(kernel).ok()) << Verify(kernel);
        const std::int64_t size = kernel_ir::ElementSize(dtype), step = inner == Inner::kStrided ? 2 : 1;
        for (std::int64_t n : {1, 7, 64, 257, 1024}) {
          SCOPED_TRACE(std::string(Name(dtype)) + " n " + std::to_string(n));
          LaunchShape shape;
          shape.inner = n;
          shape.extents = {5};
          shape.buffers = {{{1}, 0, 0}, {{0}, 0, step * size}, {{4 * n}, 0, 4}, {{4 * n}, 0, 4}};
          shape.params = {static_cast<std::uint64_t>(n * step)};
          ExpectSame(kernel, shape, {5, 256 * n * step, 5 * n, 5 * n}, static_cast<unsigned>(n), 1, false);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Sums so far, of rows and of columns, beside a sum of them. Of doubles, so that their order does not show.
TEST(Scans, OfRowsAndColumns) {
  for (Skeleton skeleton : {Skeleton::kRow, Skeleton::kColumn}) {
    for (Type type : {Type::kF64, Type::kF32, Type::kI64, Type::kI32}) {
      const bool column = skeleton == Skeleton::kColumn;
      constexpr DType kStored[] = {DType::kBool, DType::kI32, DType::kI64, DType::kF32, DType::kF64};
      const DType dtype = kStored[static_cast<int>(type)];
      Kernel kernel;
      kernel.skeleton = skeleton;
      kernel.outer_rank = 1;
      Builder b(&kernel);
      const int in = b.AddBuffer(dtype, false), out = b.AddBuffer(dtype, true);
      const int most = b.AddBuffer(dtype, true, column ? Inner::kContiguous : Inner::kUniform);
      b.Begin(BlockKind::kLoop);
      const ValueId x = b.Load(in), sum = b.Unary(Op::kScanSum, x);
      b.Store(out, b.Binary(Op::kSub, sum, x));
      const ValueId largest = b.Unary(Op::kReduceMax, sum);
      b.Begin(column ? BlockKind::kLoop : BlockKind::kOnce);
      b.Store(most, largest);
      ASSERT_TRUE(Verify(kernel).ok()) << Verify(kernel);
      const std::int64_t size = kernel_ir::ElementSize(dtype);
      for (std::int64_t rows : {1, 7, 8, 21}) {
        for (std::int64_t n : {1, 9, 64, 130}) {
          SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(rows) + " x " + std::to_string(n));
          LaunchShape shape;
          shape.inner = n;
          shape.extents = {rows};
          shape.buffers = {{{n * size}, 0, size}, {{n * size}, 0, size}, {{column ? 0 : size}, 0, column ? size : 0}};
          ExpectSame(kernel, shape, {rows * n, rows * n, column ? n : rows}, static_cast<unsigned>(rows * n), 1, false);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace framefuse::testing
