// Tile interpreter: each instruction runs over a tile of lanes before the next. See interpret.h.
// Reductions of floats accumulate in double, so that it is at least as exact as any emitter.
#include "backends/kernel_ir/interpret.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/kernel_ir/abi.h"
#include "backends/kernel_ir/evaluate.h"

namespace framefuse::kernel_ir {
namespace {

constexpr int kTile = 64;

union Accumulator {
  double f;
  std::int64_t i;
};

bool IsSum(Op op) { return op == Op::kReduceSum || op == Op::kScanSum; }
bool IsMax(Op op) { return op == Op::kReduceMax || op == Op::kReduceMaxRaw; }

Accumulator Identity(const Inst& inst) {
  Accumulator a{};
  const double inf = std::numeric_limits<double>::infinity();
  const bool wide = inst.type == Type::kI64;
  if (IsFloat(inst.type)) {
    a.f = IsSum(inst.op) ? 0 : inst.op == Op::kReduceProd ? 1 : IsMax(inst.op) ? -inf : inf;
  } else if (IsMax(inst.op)) {
    a.i = wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
  } else if (inst.op == Op::kReduceMin) {
    a.i = wide ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  } else {
    a.i = inst.op == Op::kReduceProd ? 1 : 0;
  }
  return a;
}

template <typename T>
T Combine(Op op, T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (IsMax(op)) return std::max(a, b);
  return std::min(a, b);
}

void Accumulate(const Inst& inst, Accumulator* acc, const void* lanes, int i) {
  if (IsFloat(inst.type)) {
    const double v = inst.type == Type::kF32 ? static_cast<double>(static_cast<const float*>(lanes)[i])
                                             : static_cast<const double*>(lanes)[i];
    acc->f = IsSum(inst.op) ? acc->f + v : inst.op == Op::kReduceProd ? acc->f * v : Combine(inst.op, acc->f, v);
    return;
  }
  const std::int64_t v = inst.type == Type::kI64 ? static_cast<const std::int64_t*>(lanes)[i]
                                                 : std::int64_t{static_cast<const std::int32_t*>(lanes)[i]};
  const auto ua = static_cast<std::uint64_t>(acc->i), uv = static_cast<std::uint64_t>(v);
  acc->i = IsSum(inst.op)               ? static_cast<std::int64_t>(ua + uv)
           : inst.op == Op::kReduceProd ? static_cast<std::int64_t>(ua * uv)
                                        : Combine(inst.op, acc->i, v);
}

void WriteLane(Type type, void* lanes, int i, Accumulator value) {
  switch (type) {
    case Type::kF32:
      static_cast<float*>(lanes)[i] = static_cast<float>(value.f);
      break;
    case Type::kF64:
      static_cast<double*>(lanes)[i] = value.f;
      break;
    case Type::kI64:
      static_cast<std::int64_t*>(lanes)[i] = value.i;
      break;
    case Type::kI32:
    case Type::kPred:
      static_cast<std::int32_t*>(lanes)[i] = static_cast<std::int32_t>(value.i);
  }
}

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, void** args)
      : kernel_(kernel), layout_(kernel), lanes_(kernel.insts.size() * kTile), accumulators_(kernel.insts.size()) {
    const std::size_t buffers = kernel.buffers.size();
    const auto scratch = static_cast<std::size_t>(ScratchRowCount(kernel));
    for (std::size_t b = 0; b < buffers; ++b) row_.push_back(static_cast<char*>(args[b]));
    for (std::size_t s = 0; s < scratch; ++s) scratch_.push_back(static_cast<char*>(args[buffers + s]));
    sizes_ = static_cast<const std::int64_t*>(args[buffers + scratch]);
    const auto* digits = static_cast<const std::int64_t*>(args[buffers + scratch + 1]);
    if (kernel.outer_rank > 0) digits_.assign(digits, digits + kernel.outer_rank);
    inner_ = sizes_[SizesLayout::kInner];
    segments_ = kernel.segments ? sizes_[SizesLayout::kSegments] : 1;
  }

  void Run(std::int64_t begin, std::int64_t end) {
    if (kernel_.skeleton == Skeleton::kColumn) return RunColumn(end - begin);
    std::int64_t rows = end - begin;
    if (kernel_.outer_rank == 0) {
      inner_ = rows;
      rows = rows > 0 ? 1 : 0;
    }
    for (; rows > 0; --rows) {
      for (const Block& block : kernel_.blocks) block.kind == BlockKind::kLoop ? RunLoop(block) : RunOnce(block);
      if (rows > 1) NextRow();
    }
  }

 private:
  void* Lanes(ValueId id) { return &lanes_[static_cast<std::size_t>(id) * kTile]; }

  void NextRow() {
    int d = kernel_.outer_rank - 1;
    while (d > 0 && ++digits_[static_cast<std::size_t>(d)] == sizes_[layout_.Extent(d)]) {
      digits_[static_cast<std::size_t>(d--)] = 0;
    }
    for (std::size_t b = 0; b < row_.size(); ++b) row_[b] += sizes_[layout_.Delta(static_cast<int>(b), d)];
  }

  std::int64_t InnerStride(std::size_t b) const {
    const Buffer& buffer = kernel_.buffers[b];
    if (buffer.inner == Inner::kUniform) return 0;
    return buffer.inner == Inner::kContiguous ? std::int64_t{ElementSize(buffer.dtype)}
                                              : sizes_[layout_.InnerStride(static_cast<int>(b))];
  }

  // Runs `code` on points [at, at + n) of segment `segment`.
  void RunTile(const Block& block, std::int64_t segment, std::int64_t at, int n) {
    for (ValueId id : block.code) {
      const Inst& inst = kernel_[id];
      switch (ClassOf(inst.op)) {
        case OpClass::kLeaf:
          RunLeaf(inst, Lanes(id), at, n);
          break;
        case OpClass::kMemory:
          RunMemory(inst, Lanes(id), segment, at, n);
          break;
        case OpClass::kReduce:
          RunReduce(id, at, n);
          break;
        case OpClass::kScan:
          RunScan(id, at, n);
          break;
        case OpClass::kArith:
        case OpClass::kCompare:
        case OpClass::kBits:
        case OpClass::kConvert:
        case OpClass::kMath: {
          const auto arg = [&](std::size_t a) { return inst.args[a] >= 0 ? Lanes(inst.args[a]) : nullptr; };
          Evaluate(inst, kernel_[inst.args[0]].type, Lanes(id), arg(0), arg(1), arg(2), n);
        }
      }
    }
  }

  void RunLeaf(const Inst& inst, void* out, std::int64_t at, int n) {
    for (int i = 0; i < n; ++i) {
      Accumulator value{};
      if (inst.op == Op::kIota) {
        value.i = at + i;
      } else if (inst.op == Op::kRowIota) {
        value.i = reduced_row_;
      } else if (inst.op == Op::kParam) {
        std::memcpy(&value, &sizes_[layout_.Param(inst.slot)], 8);
      } else {
        std::memcpy(&value, &inst.imm, 8);
      }
      WriteLane(inst.type, out, i, value);
    }
  }

  void RunMemory(const Inst& inst, void* lanes, std::int64_t segment, std::int64_t at, int n) {
    const auto slot = static_cast<std::size_t>(inst.slot);
    if (inst.op == Op::kScratchLoad || inst.op == Op::kScratchStore) {
      const std::int64_t size = Is64Bit(inst.type) ? 8 : 4;
      char* p = scratch_[slot] + (segment * inner_ + at) * size;
      const auto bytes = static_cast<std::size_t>(n * size);
      inst.op == Op::kScratchLoad ? std::memcpy(lanes, p, bytes) : std::memcpy(p, Lanes(inst.args[0]), bytes);
      return;
    }
    const Buffer& buffer = kernel_.buffers[slot];
    const std::int64_t stride = InnerStride(slot);
    char* base = row_[slot] + (buffer.segmented ? segment * sizes_[layout_.SegmentStride(inst.slot)] : 0);
    if (inst.op == Op::kLoadAt) {
      const auto* index = static_cast<const std::int64_t*>(Lanes(inst.args[0]));
      const std::int64_t step = sizes_[layout_.InnerStride(inst.slot)];
      const std::size_t lane = Is64Bit(inst.type) ? 8 : 4;
      for (int i = 0; i < n; ++i) {
        LoadLanes(buffer.dtype, base + index[i] * step, 0,
                  static_cast<char*>(lanes) + static_cast<std::size_t>(i) * lane, 1);
      }
    } else if (inst.op == Op::kLoadFrom) {
      const std::int64_t elements = *static_cast<const std::int64_t*>(Lanes(inst.args[0]));
      LoadLanes(buffer.dtype, base + elements * ElementSize(buffer.dtype) + at * stride, stride, lanes, n);
    } else if (inst.op == Op::kLoad) {
      LoadLanes(buffer.dtype, base + at * stride, stride, lanes, n);
    } else {
      StoreLanes(buffer.dtype, base + at * stride, stride, Lanes(inst.args[0]), stride == 0 ? 1 : n);
    }
  }

  void RunReduce(ValueId id, std::int64_t at, int n) {
    const Inst& inst = kernel_[id];
    std::vector<Accumulator>& acc = accumulators_[static_cast<std::size_t>(id)];
    const bool column = kernel_.skeleton == Skeleton::kColumn;
    for (int i = 0; i < n; ++i) {
      Accumulate(inst, &acc[column ? static_cast<std::size_t>(at + i) : 0], Lanes(inst.args[0]), i);
    }
  }

  // Sums of f32 are rounded one by one.
  void RunScan(ValueId id, std::int64_t at, int n) {
    const Inst& inst = kernel_[id];
    std::vector<Accumulator>& acc = accumulators_[static_cast<std::size_t>(id)];
    const bool column = kernel_.skeleton == Skeleton::kColumn;
    for (int i = 0; i < n; ++i) {
      Accumulator& sum = acc[column ? static_cast<std::size_t>(at + i) : 0];
      Accumulate(inst, &sum, Lanes(inst.args[0]), i);
      if (inst.type == Type::kF32) sum.f = static_cast<double>(static_cast<float>(sum.f));
      WriteLane(inst.type, Lanes(id), i, sum);
    }
  }

  void Reset(const Block& block, std::size_t width) {
    for (ValueId id : block.code) {
      if (ClassOf(kernel_[id].op) == OpClass::kReduce || ClassOf(kernel_[id].op) == OpClass::kScan) {
        accumulators_[static_cast<std::size_t>(id)].assign(width, Identity(kernel_[id]));
      }
    }
  }

  void RunOnce(const Block& block) { RunTile(block, 0, 0, 1), Spread(block); }

  // Values of a once block are used by all lanes of later loops.
  void Spread(const Block& block) {
    for (ValueId id : block.code) {
      const std::size_t size = Is64Bit(kernel_[id].type) ? 8 : 4;
      auto* lanes = static_cast<char*>(Lanes(id));
      for (std::size_t i = 1; i < kTile; ++i) std::memcpy(lanes + i * size, lanes, size);
    }
  }

  void RunLoop(const Block& block) {
    Reset(block, 1);
    for (std::int64_t s = 0; s < segments_; ++s) {
      for (std::int64_t at = 0; at < inner_; at += kTile) {
        RunTile(block, s, at, static_cast<int>(std::min<std::int64_t>(kTile, inner_ - at)));
      }
    }
    for (ValueId id : block.code) {
      if (ClassOf(kernel_[id].op) != OpClass::kReduce) continue;
      for (int i = 0; i < kTile; ++i) {
        WriteLane(kernel_[id].type, Lanes(id), i, accumulators_[static_cast<std::size_t>(id)][0]);
      }
    }
  }

  void RunColumn(std::int64_t rows) {
    const Block& body = kernel_.blocks.front();
    Reset(body, static_cast<std::size_t>(inner_));
    const std::vector<char*> first = row_;
    for (std::int64_t r = 0; r < rows; ++r) {
      reduced_row_ = r;
      for (std::int64_t at = 0; at < inner_; at += kTile) {
        RunTile(body, 0, at, static_cast<int>(std::min<std::int64_t>(kTile, inner_ - at)));
      }
      for (std::size_t b = 0; b < row_.size(); ++b) row_[b] += sizes_[layout_.Delta(static_cast<int>(b), 0)];
    }
    row_ = first;
    for (std::size_t k = 1; k < kernel_.blocks.size(); ++k) {
      for (std::int64_t at = 0; at < inner_; at += kTile) {
        const int n = static_cast<int>(std::min<std::int64_t>(kTile, inner_ - at));
        LoadAccumulators(body, at, n);
        RunTile(kernel_.blocks[k], 0, at, n);
      }
    }
  }

  void LoadAccumulators(const Block& body, std::int64_t at, int n) {
    for (ValueId id : body.code) {
      if (ClassOf(kernel_[id].op) != OpClass::kReduce) continue;
      for (int i = 0; i < n; ++i) {
        WriteLane(kernel_[id].type, Lanes(id), i,
                  accumulators_[static_cast<std::size_t>(id)][static_cast<std::size_t>(at + i)]);
      }
    }
  }

  const Kernel& kernel_;
  const SizesLayout layout_;
  std::vector<char*> row_, scratch_;
  const std::int64_t* sizes_ = nullptr;
  std::vector<std::int64_t> digits_;
  std::int64_t inner_ = 0, segments_ = 1, reduced_row_ = 0;
  std::vector<std::uint64_t> lanes_;
  std::vector<std::vector<Accumulator>> accumulators_;
};

}  // namespace

void Interpret(const Kernel& kernel, void** args, std::int64_t begin, std::int64_t end) {
  Interpreter(kernel, args).Run(begin, end);
}

}  // namespace framefuse::kernel_ir
