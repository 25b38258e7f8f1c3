// Every reduction of every type, of numbers along rows and down columns, as machine code and PTX against the
// interpreter.
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

using kernel_ir::ElementSize;

DType StorageOf(Type type) {
  constexpr DType kStorage[] = {DType::kBool, DType::kI32, DType::kI64, DType::kF32, DType::kF64};
  return kStorage[static_cast<int>(type)];
}

bool IsMade(Op op, Type type) {
  if (op == Op::kReduceMaxRaw) return kernel_ir::IsFloat(type);
  return op != Op::kReduceProd || kernel_ir::IsFloat(type);  // lowering makes none of integers
}

Kernel Reduced(Op op, Type type, Skeleton skeleton) {
  const bool row = skeleton == Skeleton::kRow;
  Kernel kernel;
  kernel.skeleton = skeleton;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  const int x = b.AddBuffer(StorageOf(type), false);
  const int y = b.AddBuffer(StorageOf(type), true, row ? Inner::kUniform : Inner::kContiguous);
  b.Begin(BlockKind::kLoop);
  const ValueId reduced = b.Unary(op, b.Load(x));
  b.Begin(row ? BlockKind::kOnce : BlockKind::kLoop);
  b.Store(y, reduced);
  return kernel;
}

TEST(Reductions, OfEveryTypeAlongRowsAndDownColumns) {
  int made = 0;
  for (int o = static_cast<int>(Op::kReduceSum); o <= static_cast<int>(Op::kReduceMaxRaw); ++o) {
    const Op op = static_cast<Op>(o);
    for (Type type : {Type::kI32, Type::kI64, Type::kF32, Type::kF64}) {
      if (!IsMade(op, type)) continue;
      ++made;
      const bool exact = op != Op::kReduceSum && op != Op::kReduceProd;
      for (Skeleton skeleton : {Skeleton::kRow, Skeleton::kColumn}) {
        const bool row = skeleton == Skeleton::kRow;
        const Kernel kernel = Reduced(op, type, skeleton);
        ASSERT_TRUE(kernel_ir::Verify(kernel).ok()) << Print(kernel);
        const std::int64_t size = ElementSize(StorageOf(type));
        for (std::int64_t inner : {1, 7, 40}) {
          SCOPED_TRACE(Print(kernel) + " " + std::to_string(inner));
          LaunchShape shape;
          shape.inner = inner;
          if (row) {
            shape.extents = {5};
            shape.buffers = {{{inner * size}, 0, size}, {{size}, 0, 0}};
          } else {  // one batch of five rows
            shape.extents = {1, 5};
            shape.buffers = {{{5 * inner * size, inner * size}, 0, size}, {{inner * size, 0}, 0, size}};
          }
          ExpectSame(kernel, shape, {5 * inner, row ? 5 : inner}, 7, exact ? 1 : 100, exact && op != Op::kReduceMaxRaw);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_EQ(made, 3 * 4 + 2 + 2);  // extremes; sums; products; raw
}

}  // namespace
}  // namespace framefuse::testing
