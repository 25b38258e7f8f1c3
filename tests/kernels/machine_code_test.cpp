// Machine code against the interpreter: every operation and type, random bodies, rows, segments, columns, tiles.
#include "tests/kernels/harness.h"

namespace framefuse::testing {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 3, 4, 7, 8, 9, 15, 31, 33, 64, 100};

DType StorageOf(Type type) {
  constexpr DType kStorage[] = {DType::kBool, DType::kI32, DType::kI64, DType::kF32, DType::kF64};
  return kStorage[static_cast<int>(type)];
}

// out = op(in0, in1, in2), flat.
Kernel OneOp(Op op, Type type, Type result) {
  Kernel kernel;
  kernel.name = std::string(Name(op));
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  std::vector<ValueId> args;
  for (int a = 0; a < Arity(op); ++a) {
    const Type t = op == Op::kSelect && a == 0 ? Type::kPred : type;
    args.push_back(b.Load(b.AddBuffer(StorageOf(t), false)));
  }
  args.resize(3, kernel_ir::kNoValue);
  const std::uint64_t imm = op == Op::kShl || op == Op::kShr ? 5 : 0;
  const ValueId r = b.Emit(op, result, {args[0], args[1], args[2]}, -1, imm);
  b.Store(b.AddBuffer(StorageOf(result), true), r);
  return kernel;
}

void RunFlat(const Kernel& kernel, double scale = 1) {
  unsigned seed = 1;
  for (std::int64_t n : kSizes) {
    std::vector<std::int64_t> sizes(kernel.buffers.size(), n);
    ExpectSame(kernel, Flat(kernel, n), sizes, seed++, scale);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(MachineCode, EveryOperation) {
  using kernel_ir::OpClass;
  for (int o = 0; o <= static_cast<int>(Op::kFmod); ++o) {
    const Op op = static_cast<Op>(o);
    for (Type type : {Type::kPred, Type::kI32, Type::kI64, Type::kF32, Type::kF64}) {
      const Type result = ClassOf(op) == OpClass::kCompare ? Type::kPred : type;
      const bool is_float = kernel_ir::IsFloat(type);
      if (ClassOf(op) == OpClass::kLeaf || ClassOf(op) == OpClass::kMemory || ClassOf(op) == OpClass::kConvert)
        continue;
      // kReciprocal14 is not exact, and not everywhere: see functions_test.cpp.
      if (op == Op::kInRange || op == Op::kReciprocal14 || op == Op::kBitcast ||
          (ClassOf(op) == OpClass::kMath && !is_float))
        continue;
      if (ClassOf(op) == OpClass::kBits && is_float) continue;
      const bool float_only = op == Op::kDiv || op == Op::kFma || (op >= Op::kFloor && op <= Op::kReciprocal);
      if (float_only && !is_float) continue;
      if (type == Type::kPred && ClassOf(op) == OpClass::kArith && op != Op::kSelect) continue;
      if (type == Type::kPred && (op == Op::kShl || op == Op::kShr || op == Op::kLt || op == Op::kLe)) continue;
      SCOPED_TRACE(std::string(Name(op)) + " " + std::string(Name(type)));
      RunFlat(OneOp(op, type, result));
    }
  }
}

TEST(MachineCode, EveryCast) {
  constexpr Type kTypes[] = {Type::kPred, Type::kI32, Type::kI64, Type::kF32, Type::kF64};
  for (Type from : kTypes) {
    for (Type to : kTypes) {
      if (from == to) continue;
      SCOPED_TRACE(std::string(Name(from)) + " to " + std::string(Name(to)));
      RunFlat(OneOp(Op::kCast, from, to));
    }
  }
}

TEST(MachineCode, EveryStorageTypeAndPlacement) {
  for (int d = 0; d <= static_cast<int>(DType::kF64); ++d) {
    for (bool wide : {false, true}) {
      for (Inner inner : {Inner::kContiguous, Inner::kStrided, Inner::kUniform}) {
        const DType dtype = static_cast<DType>(d);
        Kernel kernel;
        Builder b(&kernel);
        b.Begin(BlockKind::kLoop);
        const ValueId v = b.Load(b.AddBuffer(dtype, false, inner));
        const Inner out = inner == Inner::kUniform ? Inner::kContiguous : inner;
        b.Store(b.AddBuffer(dtype, true, out), v);
        if (wide) {  // a 64-bit element value halves the lanes
          const ValueId i = b.Emit(Op::kIota, Type::kI64, {});
          b.Store(b.AddBuffer(DType::kI64, true), i);
        }
        for (std::int64_t n : kSizes) {
          SCOPED_TRACE(std::string(Name(dtype)) + " n " + std::to_string(n));
          LaunchShape shape = Flat(kernel, n);
          std::vector<std::int64_t> sizes(kernel.buffers.size(), n);
          if (inner == Inner::kStrided) {
            for (std::size_t k = 0; k < 2; ++k) shape.buffers[k].inner *= 3, sizes[k] = n * 3;
          }
          if (inner == Inner::kUniform) sizes[0] = 1;
          ExpectSame(kernel, shape, sizes, static_cast<unsigned>(n));
        }
      }
    }
  }
}

// Pieces of rows, a row's number, a column's numbers and a strided buffer, in two outer dimensions that lie
// differently.
TEST(MachineCode, PointsOfRows) {
  for (DType dtype : {DType::kBool, DType::kI16, DType::kI64, DType::kBF16, DType::kF32, DType::kF64}) {
    Kernel kernel;
    kernel.outer_rank = 2;
    Builder b(&kernel);
    b.Begin(BlockKind::kLoop);
    const ValueId x = b.Load(b.AddBuffer(dtype, false)), r = b.Load(b.AddBuffer(dtype, false, Inner::kUniform));
    const ValueId c = b.Load(b.AddBuffer(dtype, false)), s = b.Load(b.AddBuffer(dtype, false, Inner::kStrided));
    const Op op = dtype == DType::kBool ? Op::kXor : Op::kMul;
    b.Store(b.AddBuffer(dtype, true), b.Binary(op, b.Binary(op, x, r), b.Binary(op, c, s)));
    const std::int64_t size = kernel_ir::ElementSize(dtype);
    for (std::int64_t inner : {1, 5, 8, 40, 67, 1024}) {
      for (std::int64_t apart : {0, 3}) {
        const std::int64_t row = inner + apart;
        LaunchShape shape;
        shape.inner = inner;
        shape.extents = {3, 4};
        shape.buffers = {{{4 * row * size, row * size}, 0, size},
                         {{4 * size, size}, 0, 0},
                         {{0, 0}, 0, size},
                         {{row * 3 * size, row * 9 * size}, 0, 3 * size},
                         {{row * size, 3 * row * size}, 0, size}};
        ExpectSame(kernel, shape, {12 * row, 12, inner, 36 * row, 12 * row}, 11);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Rounding up must not carry a NaN's fraction away, whatever type it comes from.
TEST(MachineCode, RoundsNaNsToNaNs) {
  for (DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (bool wrap : {false, true}) {
      Kernel kernel;
      Builder b(&kernel);
      const ValueId v = b.Load(b.AddBuffer(from, false));
      const auto imm = static_cast<std::uint64_t>(DType::kBF16);
      b.Store(b.AddBuffer(DType::kBF16, true), wrap ? b.Emit(Op::kWrap, Type::kF32, {v}, -1, imm) : v);
      auto compiled = CpuKernel::Get(kernel);
      ASSERT_TRUE(compiled.ok());
      const std::vector<std::uint32_t> wide = {0x7f800001, 0x7fffffff, 0xffffffff, 0x7fff8000, 0xff807fff, 0x7fc00000};
      const std::vector<std::uint16_t> f16 = {0x7c01, 0x7fff, 0xffff, 0xfc01}, bf16 = {0x7f81, 0x7fff, 0xffff, 0xff81};
      std::vector<char> in;
      const auto put = [&](const auto& values) {
        for (int i = 0; i < 40; ++i) {
          const auto value = values[static_cast<std::size_t>(i) % values.size()];
          in.insert(in.end(), reinterpret_cast<const char*>(&value), reinterpret_cast<const char*>(&value + 1));
        }
      };
      from == DType::kF32 ? put(wide) : put(from == DType::kF16 ? f16 : bf16);
      std::vector<std::uint16_t> out(40);
      void* buffers[] = {in.data(), out.data()};
      Launch(*compiled, Flat(kernel, 40)).Run(buffers);
      for (std::uint16_t bits : out) EXPECT_GT(bits & 0x7fff, 0x7f80) << Name(from) << std::hex << " " << bits;
    }
  }
}

// What operations make of a NaN is one that rounds to a NaN, too.
TEST(MachineCode, NaNsOfEveryOperationRoundToNaNs) {
  for (int o = static_cast<int>(Op::kAdd); o <= static_cast<int>(Op::kReduceMin); ++o) {
    const Op op = static_cast<Op>(o);
    const auto cls = ClassOf(op);
    const bool arithmetic = cls == kernel_ir::OpClass::kArith || cls == kernel_ir::OpClass::kMath;
    if (!arithmetic && cls != kernel_ir::OpClass::kReduce) continue;
    if (op == Op::kInRange || op == Op::kSelect || op == Op::kReciprocal14 || op == Op::kMinRaw || op == Op::kMaxRaw)
      continue;
    SCOPED_TRACE(std::string(Name(op)));
    Kernel kernel;
    kernel.skeleton = cls == kernel_ir::OpClass::kReduce ? Skeleton::kRow : Skeleton::kPointwise;
    kernel.outer_rank = 1;
    Builder b(&kernel);
    b.Begin(BlockKind::kLoop);
    const ValueId x = b.Load(b.AddBuffer(DType::kBF16, false)), one = b.Const(Type::kF32, 1);
    const ValueId r = Arity(op) == 1   ? b.Unary(op, x)
                      : Arity(op) == 2 ? b.Binary(op, x, one)
                                       : b.Emit(op, Type::kF32, {x, one, one});
    if (kernel.skeleton == Skeleton::kRow) b.Begin(BlockKind::kOnce);
    const Inner inner = kernel.skeleton == Skeleton::kRow ? Inner::kUniform : Inner::kContiguous;
    b.Store(b.AddBuffer(DType::kBF16, true, inner), r);
    auto compiled = CpuKernel::Get(kernel);
    ASSERT_TRUE(compiled.ok());
    std::vector<std::uint16_t> in(40, 0x7fc0), out(40, 0x7fc0);
    LaunchShape shape = Flat(kernel, 40);
    shape.extents = {1};
    for (BufferStrides& strides : shape.buffers) strides.outer = {0};
    void* buffers[] = {in.data(), out.data()};
    Launch(*compiled, shape).Run(buffers);
    for (std::uint16_t bits : out) EXPECT_GT(bits & 0x7fff, 0x7f80) << std::hex << bits;
  }
}

TEST(MachineCode, WrapsSmallIntegersAndRoundsHalves) {
  for (DType to : {DType::kU8, DType::kI8, DType::kI16}) {
    Kernel kernel;
    Builder b(&kernel);
    const ValueId v = b.Load(b.AddBuffer(DType::kI32, false));
    const ValueId big = b.Binary(Op::kMul, v, b.ConstInt(Type::kI32, 12345));
    b.Store(b.AddBuffer(DType::kI32, true), b.Emit(Op::kWrap, Type::kI32, {big}, -1, static_cast<std::uint64_t>(to)));
    b.Store(b.AddBuffer(to, true), big);
    RunFlat(kernel);
  }
  for (DType to : {DType::kF16, DType::kBF16}) {
    Kernel kernel;
    Builder b(&kernel);
    const ValueId v = b.Load(b.AddBuffer(DType::kF32, false));
    b.Store(b.AddBuffer(DType::kF32, true), b.Emit(Op::kWrap, Type::kF32, {v}, -1, static_cast<std::uint64_t>(to)));
    b.Store(b.AddBuffer(to, true), v);
    RunFlat(kernel, 0);
  }
}

// A random straight-line body over f32 and i32 with many live values, so that registers run out.
Kernel RandomBody(unsigned seed, bool wide) {
  std::mt19937 random(seed);
  Kernel kernel;
  Builder b(&kernel);
  b.Begin(BlockKind::kLoop);
  const Type f = wide ? Type::kF64 : Type::kF32, n = wide ? Type::kI64 : Type::kI32;
  std::vector<ValueId> floats, ints;
  for (int k = 0; k < 4; ++k) floats.push_back(b.Load(b.AddBuffer(StorageOf(f), false)));
  for (int k = 0; k < 2; ++k) ints.push_back(b.Load(b.AddBuffer(StorageOf(n), false)));
  floats.push_back(b.Load(b.AddBuffer(StorageOf(f), false, Inner::kUniform)));
  const auto pick = [&](const std::vector<ValueId>& from) { return from[random() % from.size()]; };
  const int length = 5 + static_cast<int>(random() % 60);
  for (int k = 0; k < length; ++k) {
    switch (random() % 9) {
      case 0:
        floats.push_back(b.Binary(Op::kAdd, pick(floats), pick(floats)));
        break;
      case 1:
        floats.push_back(b.Binary(Op::kMul, pick(floats), b.Const(f, 0.5)));
        break;
      case 2:
        floats.push_back(b.Emit(Op::kFma, f, {pick(floats), pick(floats), pick(floats)}));
        break;
      case 3:
        floats.push_back(b.Binary(random() % 2 ? Op::kMax : Op::kMin, pick(floats), pick(floats)));
        break;
      case 4:
        floats.push_back(b.Select(b.Compare(Op::kLt, pick(floats), pick(floats)), pick(floats), pick(floats)));
        break;
      case 5:
        ints.push_back(b.Binary(Op::kAdd, pick(ints), pick(ints)));
        break;
      case 6:
        ints.push_back(b.Select(b.Compare(Op::kLe, pick(ints), pick(ints)), pick(ints), b.ConstInt(n, 3)));
        break;
      case 7:
        floats.push_back(b.Unary(Op::kNeg, pick(floats)));
        break;
      default:
        floats.push_back(b.Unary(random() % 8 == 0 ? Op::kSin : Op::kAbs, pick(floats)));
        break;
    }
  }
  for (int k = 0; k < 3; ++k) b.Store(b.AddBuffer(StorageOf(f), true), pick(floats));
  b.Store(b.AddBuffer(StorageOf(n), true), pick(ints));
  return kernel;
}

TEST(MachineCode, RandomBodies) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Kernel kernel = RandomBody(seed, seed % 3 == 0);
    for (std::int64_t n : {5, 37}) {
      std::vector<std::int64_t> sizes(kernel.buffers.size(), n);
      sizes[6] = 1;
      ExpectSame(kernel, Flat(kernel, n), sizes, seed, 1);
      if (HasFatalFailure()) return;
    }
  }
}

// y = (x - max) scaled by a row sum, kept in scratch; all stores and levels of a row kernel.
Kernel RowKernel(DType dtype, bool segments) {
  Kernel kernel;
  kernel.skeleton = Skeleton::kRow;
  kernel.outer_rank = 2;
  kernel.segments = segments;
  Builder b(&kernel);
  const int x = b.AddBuffer(dtype, false, Inner::kContiguous, segments);
  const int weight = b.AddBuffer(dtype, false, segments ? Inner::kUniform : Inner::kContiguous, segments);
  const int y = b.AddBuffer(dtype, true, Inner::kContiguous, segments), s = b.AddBuffer(dtype, true, Inner::kUniform);
  const int p = b.AddParam(ComputeType(dtype));
  const int scratch = b.AddScratch();
  b.Begin(BlockKind::kLoop);
  const ValueId max = b.Unary(Op::kReduceMax, b.Load(x));
  b.Begin(BlockKind::kLoop);
  const ValueId e = b.Binary(Op::kSub, b.Load(x), max);
  const ValueId sum = b.Unary(Op::kReduceSum, e);
  const ValueId square = b.Unary(Op::kReduceSum, b.Binary(Op::kMul, e, e));
  b.Emit(Op::kScratchStore, ComputeType(dtype), {e}, scratch);
  b.Begin(BlockKind::kOnce);
  const ValueId mean = b.Binary(Op::kMul, sum, b.Emit(Op::kParam, ComputeType(dtype), {}, p));
  b.Store(s, mean);
  b.Begin(BlockKind::kLoop);
  const ValueId loaded = b.Emit(Op::kScratchLoad, ComputeType(dtype), {}, scratch);
  const ValueId scaled =
      b.Binary(Op::kAdd, b.Binary(Op::kMul, b.Binary(Op::kSub, loaded, mean), b.Load(weight)), square);
  b.Store(y, scaled);
  return kernel;
}

TEST(MachineCode, Rows) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (bool segments : {false, true}) {
      for (std::int64_t inner : {1, 5, 8, 40, 67}) {
        const Kernel kernel = RowKernel(dtype, segments);
        const std::int64_t count = segments ? 3 : 1, size = kernel_ir::ElementSize(dtype), row = inner * count;
        LaunchShape shape;
        shape.inner = inner;
        shape.segments = count;
        shape.extents = {3, 4};
        shape.buffers = {{{4 * row * size, row * size}, inner * size, size},
                         {{0, 0}, size, segments ? 0 : size},
                         {{row * size, 3 * row * size}, inner * size, size},  // outer dimensions swapped
                         {{4 * size, size}, 0, 0}};
        shape.params = {std::bit_cast<std::uint64_t>(1.0 / static_cast<double>(row))};
        ExpectSame(kernel, shape, {12 * row, std::max(row, count), 12 * row, 12}, 5, 40, false);
      }
    }
  }
}

TEST(MachineCode, Columns) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI32}) {
    for (std::int64_t rows : {0, 1, 7, 8, 19}) {
      for (std::int64_t columns : {1, 6, 8, 45, 300}) {
        Kernel kernel;
        kernel.skeleton = Skeleton::kColumn;
        kernel.outer_rank = 1;
        Builder b(&kernel);
        const int x = b.AddBuffer(dtype, false), u = b.AddBuffer(dtype, false, Inner::kUniform);
        const int y = b.AddBuffer(dtype, true), z = b.AddBuffer(dtype, true);
        b.Begin(BlockKind::kLoop);
        const ValueId v = b.Load(x);
        const ValueId sum = b.Unary(Op::kReduceSum, b.Binary(Op::kMul, v, b.Load(u)));
        const ValueId max = b.Unary(Op::kReduceMax, v);
        b.Begin(BlockKind::kLoop);
        b.Store(y, b.Binary(Op::kAdd, sum, b.Const(kernel[sum].type, 1)));
        b.Store(z, max);
        const std::int64_t size = kernel_ir::ElementSize(dtype);
        LaunchShape shape;
        shape.inner = columns;
        shape.extents = {2, rows};
        shape.buffers = {{{rows * columns * size, columns * size}, 0, size},
                         {{rows * size, size}, 0, 0},
                         {{columns * size, 0}, 0, size},
                         {{columns * size, 0}, 0, size}};
        ExpectSame(kernel, shape, {2 * rows * columns, 2 * rows, 2 * columns, 2 * columns}, 9, 40, false);
      }
    }
  }
}

constexpr std::pair<std::int64_t, std::int64_t> kTransposedSizes[] = {
    {0, 5},   {5, 0},   {1, 1},   {3, 40},  {8, 8},    {15, 4},   {16, 16}, {17, 33}, {31, 9},  {33, 70}, {40, 17},
    {48, 31}, {63, 64}, {79, 30}, {95, 18}, {130, 35}, {17, 300}, {9, 100}, {300, 9}, {12, 64}, {64, 12}};

// A read along the columns, one along the rows, and one number a row.
Kernel TransposedKernel(DType plain, DType turned, DType of_row,
                        const std::function<ValueId(Builder&, ValueId, ValueId, ValueId)>& body) {
  Kernel kernel;
  kernel.skeleton = Skeleton::kTransposed;
  kernel.outer_rank = 1;
  Builder b(&kernel);
  const ValueId x = b.Load(b.AddBuffer(plain, false)), t = b.Load(b.AddBuffer(turned, false, Inner::kTransposed));
  const ValueId r = b.Load(b.AddBuffer(of_row, false, Inner::kUniform));
  b.Store(b.AddBuffer(plain, true), body(b, x, t, r));
  return kernel;
}

void ExpectSameTransposed(const Kernel& kernel, std::int64_t rows, std::int64_t columns) {
  const auto size = [&](int b) {
    return std::int64_t{kernel_ir::ElementSize(kernel.buffers[static_cast<std::size_t>(b)].dtype)};
  };
  const std::int64_t all = rows * columns;
  LaunchShape shape;
  shape.inner = columns;
  shape.extents = {2, rows};
  shape.buffers = {{{all * size(0), columns * size(0)}, 0, size(0)},
                   {{all * size(1), size(1)}, 0, rows * size(1)},
                   {{rows * size(2), size(2)}, 0, 0},
                   {{all * size(3), columns * size(3)}, 0, size(3)}};
  ExpectSame(kernel, shape, {2 * all, 2 * all, 2 * rows, 2 * all}, 3);
}

TEST(MachineCode, TransposedReads) {
  for (DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kF16,
                      DType::kBF16, DType::kF32, DType::kF64}) {
    const Kernel kernel = TransposedKernel(dtype, dtype, dtype, [](Builder& b, ValueId x, ValueId t, ValueId r) {
      if (b.TypeOf(x) == Type::kPred) return b.Binary(Op::kXor, b.Binary(Op::kXor, x, t), r);
      return b.Binary(Op::kSub, b.Binary(Op::kAdd, x, t), r);
    });
    for (auto [rows, columns] : kTransposedSizes) ExpectSameTransposed(kernel, rows, columns);
  }
}

// Small elements beside wide ones; what is uniform in a row is computed; functions that are calls; long bodies.
TEST(MachineCode, TransposedReadsInLargerBodies) {
  for (DType turned : {DType::kBool, DType::kU8, DType::kI16, DType::kF16, DType::kF32, DType::kF64, DType::kI64}) {
    for (DType plain : {DType::kF32, DType::kF64}) {
      const Type type = kernel_ir::ComputeType(plain);
      const Kernel kernel =
          TransposedKernel(plain, turned, DType::kBF16, [&](Builder& b, ValueId x, ValueId t, ValueId r) {
            const ValueId wide = b.Cast(type, t), row = b.Cast(type, b.Binary(Op::kMul, r, b.Const(Type::kF32, 0.25)));
            const ValueId most = b.Binary(Op::kMax, b.Binary(Op::kMul, b.Unary(Op::kSigmoid, wide), x), row);
            return b.Binary(Op::kMin, most, b.Binary(Op::kMul, wide, b.Const(type, -3)));
          });
      const Kernel calls =
          TransposedKernel(plain, turned, DType::kF32, [&](Builder& b, ValueId x, ValueId t, ValueId r) {
            const ValueId row = b.Cast(type, b.Unary(Op::kCosh, r));
            return b.Binary(Op::kAdd, b.Unary(Op::kAtan, b.Binary(Op::kAdd, b.Cast(type, t), x)),
                            b.Unary(Op::kAbs, row));
          });
      for (auto [rows, columns] : kTransposedSizes) {
        ExpectSameTransposed(kernel, rows, columns);
        ExpectSameTransposed(calls, rows, columns);
      }
    }
  }
}

TEST(MachineCode, IndexedLoads) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI8}) {
    for (std::int64_t n : kSizes) {
      Kernel kernel;
      Builder b(&kernel);
      const ValueId i = b.Load(b.AddBuffer(DType::kU8, false));
      const ValueId index = b.Cast(Type::kI64, i);
      const int out = b.AddBuffer(dtype, true), table = b.AddBuffer(dtype, false, Inner::kStrided);
      b.Store(out, b.LoadAt(table, index));
      LaunchShape shape = Flat(kernel, n);
      // Flat launches move buffers by the point; a table stays where it is.
      shape.buffers[2].inner = kernel_ir::ElementSize(dtype);
      ExpectSame(kernel, shape, {n, n, 512}, 3);
    }
  }
}

TEST(MachineCode, EqualBodiesShareOneBinary) {
  Kernel first = OneOp(Op::kAdd, Type::kF32, Type::kF32), second = first;
  second.name = "other";
  auto a = CpuKernel::Get(first), b = CpuKernel::Get(second);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->get(), b->get());
  EXPECT_LT((*a)->compile_ms(), 50);
}

}  // namespace
}  // namespace framefuse::testing
