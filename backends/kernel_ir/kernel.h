// Kernel: one fused kernel as a loop nest over a small SSA vector IR; every emitter reads this and nothing else.
// Shape of the nest: rows (outer_rank dimensions, sizes at run time) × optional segments × inner dimension. A row
// runs its blocks in order; a `once` block runs one time a row, a `loop` block over all inner points of the row.
// Reductions in a loop block yield values that are uniform in the row and usable after that block.
// Invariant: values are numbered by instruction, operands come before their users. Sizes and strides are launch
// arguments, so equal bodies are equal kernels.
#ifndef FRAMEFUSE_BACKENDS_KERNEL_IR_KERNEL_H_
#define FRAMEFUSE_BACKENDS_KERNEL_IR_KERNEL_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "backends/kernel_ir/types.h"

namespace framefuse::kernel_ir {

enum class Op : std::uint8_t {
#define OP(name, text, arity, cls) name,
#include "backends/kernel_ir/ops.def"
#undef OP
};
enum class OpClass : std::uint8_t { kLeaf, kMemory, kArith, kCompare, kBits, kConvert, kMath, kReduce, kScan };

std::string_view Name(Op op);
int Arity(Op op);
OpClass ClassOf(Op op);

using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

// How the launcher walks the iteration space; the nest above is the same for all.
enum class Skeleton : std::uint8_t {
  kPointwise,   // one loop block; outer_rank 0: begin..end are elements, else rows
  kRow,         // reductions along the inner dimension
  kColumn,      // reductions over the rows for each inner point; later blocks run once an inner point
  kTransposed,  // pointwise; buffers marked kTransposed are contiguous along the last outer dimension
  kHorizontal,  // pointwise of outer_rank 0 over a table of tensors
};

// How a buffer varies along the inner dimension.
enum class Inner : std::uint8_t { kUniform, kContiguous, kStrided, kTransposed };

struct Buffer {
  DType dtype = DType::kF32;
  bool written = false;
  Inner inner = Inner::kContiguous;
  bool segmented = false;  // varies with the segment
  bool operator==(const Buffer&) const = default;
};

struct Inst {
  Op op = Op::kConst;
  Type type = Type::kF32;  // of the result; of the operand for stores
  std::array<ValueId, 3> args = {kNoValue, kNoValue, kNoValue};
  std::int32_t slot = -1;  // buffer, scratch row or parameter
  std::uint64_t imm = 0;   // constant (double or int64 bits), shift count, DType of kWrap, kToBFloat16
  bool operator==(const Inst&) const = default;
};

// `imm` of an f32 function whose result was a half in the program: as exact as that will do, and the same in every
// kernel that computes it, because what is rounded twice must be rounded to one number.
inline constexpr std::uint64_t kToBFloat16 = 1, kToF16 = 2;

enum class BlockKind : std::uint8_t { kOnce, kLoop };

struct Block {
  BlockKind kind = BlockKind::kLoop;
  std::vector<ValueId> code;
  bool operator==(const Block&) const = default;
};

struct Kernel {
  std::string name;  // not part of equality: equal bodies share one binary
  Skeleton skeleton = Skeleton::kPointwise;
  int outer_rank = 0;
  bool segments = false;
  int scratch_rows = 0;      // per-thread rows of inner (× segments) points, 8 bytes each
  std::vector<Type> params;  // launch arguments; ints travel as int64, floats as double
  std::vector<Buffer> buffers;
  std::vector<Inst> insts;
  std::vector<Block> blocks;

  bool SameBody(const Kernel& other) const;
  const Inst& operator[](ValueId id) const { return insts[static_cast<std::size_t>(id)]; }
  bool Uses64Bit() const;  // any element-level 64-bit value: halves the lanes of the emitted code
};

// At which loop level a value changes.
enum class Level : std::uint8_t { kKernel, kRow, kSegment, kElement };
std::vector<Level> ComputeLevels(const Kernel& kernel);

// All that the kernel writes are halves, and it looks at none that it has rounded: no error far below their roundings
// shows.
bool RoundingHidesErrors(const Kernel& kernel);

// The value is x minus the largest x of its row: at most 0, or NaN.
bool IsBelowRowMax(const Kernel& kernel, ValueId id);

// Text form, for logs and golden tests.
std::string Print(const Kernel& kernel);

// Operand order, types, levels of stores and reductions, slots in range.
absl::Status Verify(const Kernel& kernel);

// Appends instructions to a kernel; the lowering's and the tests' way to build one.
class Builder {
 public:
  explicit Builder(Kernel* kernel) : kernel_(*kernel) {}

  void Begin(BlockKind kind) { kernel_.blocks.push_back({kind, {}}); }
  int AddBuffer(DType dtype, bool written, Inner inner = Inner::kContiguous, bool segmented = false);
  int AddParam(Type type);
  int AddScratch() { return kernel_.scratch_rows++; }

  ValueId Emit(Op op, Type type, std::initializer_list<ValueId> args, int slot = -1, std::uint64_t imm = 0);
  ValueId Const(Type type, double value);
  ValueId ConstInt(Type type, std::int64_t value);
  ValueId Load(int buffer);
  ValueId LoadAt(int buffer, ValueId index);
  ValueId LoadFrom(int buffer, ValueId elements);
  void Store(int buffer, ValueId value);
  ValueId Binary(Op op, ValueId a, ValueId b);
  ValueId Unary(Op op, ValueId a);
  ValueId Compare(Op op, ValueId a, ValueId b);
  ValueId Select(ValueId condition, ValueId a, ValueId b);
  ValueId Cast(Type to, ValueId value);  // no instruction if the type is equal; a constant for a constant
  Type TypeOf(ValueId value) const { return kernel_[value].type; }
  // A buffer of this type can hold the value unchanged: it came from one, was rounded to the type, or is one of such.
  bool IsRounded(DType dtype, ValueId value) const;

 private:
  Kernel& kernel_;
};

}  // namespace framefuse::kernel_ir

#endif  // FRAMEFUSE_BACKENDS_KERNEL_IR_KERNEL_H_
