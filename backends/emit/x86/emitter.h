// Emitter: one kernel to x86-64 machine code (AVX2, FMA, F16C; or AVX-512). Row-uniform values are vectors with equal
// lanes, so one set of rules serves all levels. A kernel with element-level 64-bit values runs 4 lanes (32-bit values
// in half vectors), others 8; with AVX-512 twice as many, predicates being vectors there, too. Code is emitted in
// sequences (straight lines: the prefix, segment part and body of a block). Registers are assigned within a sequence,
// evicting the value whose next use is farthest; values that cross sequences live in stack slots, the most used ones of
// a loop in fixed registers. xmm14, xmm15 and k2 are scratch of single operations, k1 is the tail; zmm16 on are for
// sequences whose values are all 512 bits wide, because many shorter forms cannot name them. General registers: rbx
// index, r15 inner extent, rbp caller's frame, rax rcx rdx scratch, the others buffer pointers (transposed.cpp has its
// own).
#ifndef FRAMEFUSE_BACKENDS_EMIT_X86_EMITTER_H_
#define FRAMEFUSE_BACKENDS_EMIT_X86_EMITTER_H_

#include <xbyak/xbyak.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "backends/kernel_ir/abi.h"

namespace framefuse::emit {

class Emitter : public Xbyak::CodeGenerator {
 public:
  // `evex`: vectors of 512 bits, with AVX-512's F, DQ, BW and VL.
  Emitter(const kernel_ir::Kernel& kernel, bool evex, void* buffer, std::size_t capacity);
  // Throws Xbyak::Error when the code outgrows its buffer; false: the kernel needs more than there is.
  bool Run();

 private:
  using Inst = kernel_ir::Inst;
  using Op = kernel_ir::Op;
  using Type = kernel_ir::Type;
  using DType = kernel_ir::DType;
  using ValueId = kernel_ir::ValueId;
  using Level = kernel_ir::Level;
  using Sequence = std::vector<ValueId>;

  static constexpr int kRegisters = 32;
  static constexpr int kScratch0 = 14, kScratch1 = 15;

  // Which copy of a loop body is emitted.
  struct Point {
    int copy = 0;       // of the body
    int row = 0;        // of those that are done together, in column and transposed kernels
    bool tail = false;  // fewer than lanes() points are left
  };

  // An operand that may be memory.
  struct Operand {
    std::optional<Xbyak::Xmm> reg;
    std::optional<Xbyak::Address> memory;
    const Xbyak::Operand& get() const { return reg ? static_cast<const Xbyak::Operand&>(*reg) : *memory; }
  };

  struct Block {
    kernel_ir::BlockKind kind;
    Sequence prefix, segment, body, reductions, scans;
    // So many copies of the body, each for the points behind the other's, and their instructions in turn: a processor
    // looks ahead over fewer than a long chain of dependent ones has.
    int copies = 1;
    Sequence interleaved;
  };

  // --- frame.cpp
  void Prologue();
  void Epilogue();
  void EmitRows();
  void NextRow();
  void AddDeltas(int dimension);
  void EmitPool();
  const Xbyak::AddressFrame& Sized(int bits) const;
  Xbyak::Address Stack(int offset, int bits = 64) { return Sized(bits)[rsp + offset]; }
  Xbyak::Address Size(int slot, const Xbyak::Reg64& scratch);
  int NewSlot();
  std::size_t index(ValueId v) const { return static_cast<std::size_t>(v); }

  // --- loops.cpp
  void Partition();
  void Interleave(Block* block);
  ValueId CopyOf(ValueId id, int copy, const std::vector<ValueId>& copies);
  void EmitLoop(const Block& block);
  void EmitVectorLoop(const Block& block);
  void CountedLoop(int step, const std::function<void()>& body);
  void EmitTail(const std::function<void()>& body);
  void ReleaseFixed();
  int TakeFixed();
  void LoadTailMasks();
  void AssignPointers(const Block& block);
  void AdvanceSegment(const Block& block);
  int ChooseCopies(const Block& block) const;
  int MaxPressure(const Sequence& sequence) const;
  void FixRegisters(const Block& block);
  void StartAccumulators(const Block& block);
  void FinishAccumulators(const Block& block);
  void EmitReduce(ValueId id, const Point& point);
  void HorizontalReduce(const Inst& inst, int reg);
  void EmitScan(ValueId id);
  // --- column.cpp
  void EmitColumn();
  static Sequence Accumulated(const Block& block);
  void ColumnRows(const Block& block, int rows);
  void ColumnEpilogue(const Block& block);

  // --- transposed.cpp
  bool CanTurn() const;
  bool IsTurned(ValueId id) const;  // a load along the rows
  bool IsPerRow(ValueId id) const;  // made for each row of a group before the bodies that use it
  int GroupRows() const;
  int MostRows() const;
  Xbyak::Address RowPointer(int buffer, int row);
  Xbyak::Address RowHome(ValueId v, int row);
  void EmitTransposed();
  void BeginGroup(const Block& block);
  void EmitUnits(const Block& block, bool tail);
  void RowLoop(int step, const std::function<void()>& body);
  void Turn(ValueId id, bool tail);
  void LoadPieces(ValueId id, int first, int pieces, const int* registers, bool tail);
  void LoadLanes(const Xbyak::Xmm& to, int lane, int many, const Xbyak::Address& from);
  void ExchangeLanes(const int* registers, int step, int many);
  void TurnWide(ValueId id, int piece, const int* registers);
  void TurnWords(ValueId id, int piece, const int* registers);
  void PutElements(ValueId id, int word, const Xbyak::Xmm& words);
  void WidenHalves(const Xbyak::Xmm& v);

  // --- registers.cpp
  void RunSequence(const Sequence& sequence, const Point& point);
  void BeginSequence(const Sequence& sequence);
  std::size_t NextUse(ValueId v) const;
  // Which registers the code that comes is to have.
  void ChooseRegisters(const Sequence& sequence);
  bool IsForValues(int reg) const { return reg < kScratch0 || (reg > kScratch1 && many_); }
  int ForValues() const { return many_ ? kRegisters - 2 : kScratch0; }
  int TakeRegister();
  void Bind(ValueId v, int reg);
  void Release(int reg);
  void ReleaseDead(const Inst& inst);
  bool DiesHere(ValueId v) const;
  Xbyak::Xmm Reg(ValueId v);          // in a register
  Operand Any(ValueId v);             // a register or memory
  Xbyak::Xmm Define(ValueId v);       // a register for the result; operands that die here are free for it
  Xbyak::Xmm DefineEarly(ValueId v);  // likewise, but different from every operand
  void SpillAll();
  void ReloadFixed();
  Xbyak::Address Home(ValueId v);
  bool IsConst(ValueId v) const { return kernel_[v].op == Op::kConst; }

  // --- memory.cpp
  Xbyak::Reg64 Base(int buffer, const Point& point, const Xbyak::Reg64& scratch);
  void EmitLoad(ValueId id, const Point& point);
  void EmitLoadAt(ValueId id, const Point& point);
  void BroadcastDouble(const Xbyak::Xmm& out, const Xbyak::Address& from);
  void EmitUniformLoad(DType dtype, const Xbyak::Xmm& out, const Xbyak::Reg64& base);
  void EmitPackedLoad(DType dtype, const Xbyak::Xmm& out, const Xbyak::Address& from);
  void EmitStore(ValueId id, const Point& point);
  int PackForStore(DType dtype, const Xbyak::Xmm& value);  // returns the register with packed elements
  void StorePacked(int reg, int bytes, const Xbyak::Address& to);
  void CopyLanes(int element, bool load, const Point& point);
  void LanePointer(int buffer, const Point& point);
  void EmitScratch(ValueId id, const Point& point);
  void EmitIota(const Inst& inst, const Xbyak::Xmm& out, const Point& point);
  void EmitLeaf(ValueId id, const Point& point);
  Xbyak::Address At(const Xbyak::Reg64& base, int element, const Point& point);

  // --- operations.cpp
  void EmitInst(ValueId id, const Point& point);
  void EmitArith(ValueId id);
  void EmitNeg(ValueId id);
  void EmitAbs(ValueId id);
  void EmitFma(ValueId id);
  void EmitSelect(ValueId id);
  void EmitCompare(ValueId id);
  static int FloatPredicate(Op op);
  void CompareToMask(Op op, Type type, const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Operand& b);
  void EmitBits(ValueId id);
  void Combine(Op op, Type type, const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Operand& b);
  void MinMax(Op op, Type type, const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Operand& b);
  void Multiply64(const Xbyak::Xmm& out, const Xbyak::Xmm& a, const Xbyak::Xmm& b);
  void Rounding(ValueId id, int mode);
  // --- conversions.cpp
  void EmitCast(ValueId id);
  bool EmitUniformCast(ValueId id);
  void EmitWrap(ValueId id);
  void EmitCall(ValueId id);
  bool NeedsCall(const Inst& inst) const;
  bool NeedsCall(const Sequence& sequence) const;
  void Narrow(const Xbyak::Xmm& out, const Xbyak::Xmm& wide);  // low halves of 64-bit lanes
  bool NaNsAreShort() const;
  void RoundToBFloat16(const Xbyak::Xmm& out, const Xbyak::Xmm& value);

  // --- vectors and constants
  int lanes() const { return lanes_; }
  bool Uniform(ValueId v) const { return levels_[index(v)] != Level::kElement; }
  // Of a vector of that type. 64-bit values of a kernel whose elements have none are uniform: four lanes do.
  int Bits(Type type) const { return !kernel_ir::Is64Bit(type) ? lanes_ * 32 : wide_ ? lanes_ * 64 : 256; }
  Xbyak::Xmm Vector(int reg, int bits) const {
    return bits == 512 ? Xbyak::Zmm(reg) : bits == 256 ? Xbyak::Xmm(Xbyak::Ymm(reg)) : Xbyak::Xmm(reg);
  }
  Xbyak::Xmm Vector(int reg, Type type) const { return Vector(reg, Bits(type)); }
  Xbyak::Xmm Half(int reg, int bits) const { return Vector(reg, bits / 2); }
  void Clear(const Xbyak::Xmm& v) { vxorps(v, v, v); }
  const Xbyak::Opmask& TailMask();
  Xbyak::Address Pool(std::uint64_t bits, bool wide, int vector_bits);
  Xbyak::Address ConstAddress(const Inst& inst);
  Xbyak::Address PoolF(Type type, double value);
  Xbyak::Address PoolI(Type type, std::int64_t value);
  std::uint64_t IdentityBits(const Inst& inst) const;
  void Move(const Xbyak::Xmm& to, const Xbyak::Operand& from);

  const kernel_ir::Kernel& given_;
  kernel_ir::Kernel kernel_;  // and copies of instructions
  const kernel_ir::SizesLayout layout_;
  std::vector<Level> levels_;
  const bool evex_;
  const bool wide_;  // elements of 64 bits
  const int lanes_;
  std::vector<Block> blocks_;
  struct Copy {
    ValueId of;
    int number;
  };
  std::vector<Copy> copies_;      // by value; the given ones are number 0 of themselves
  std::vector<int> sequence_of_;  // of the defining sequence
  std::vector<bool> crosses_;     // used in another sequence than its own
  std::vector<int> home_;         // stack offset, -1 none yet
  std::vector<bool> home_valid_;

  // the sequence being emitted
  std::vector<absl::InlinedVector<std::uint32_t, 4>> uses_;
  std::size_t position_ = 0;
  bool many_ = false;  // registers past the scratch ones are taken
  std::vector<int> reg_of_;
  std::array<ValueId, kRegisters> owner_{};
  std::array<bool, kRegisters> pinned_{};
  std::array<bool, kRegisters> fixed_{};
  std::map<ValueId, int> fixed_reg_;
  std::map<std::pair<ValueId, int>, int> accumulator_;  // (reduction, copy) to register
  std::vector<ValueId> touched_;

  std::map<int, Xbyak::Reg64> pointer_;  // buffers with a register in the block
  bool use_current_ = false;             // pointers step by segment: current slots, not row slots
  int pointers_ = 0;                     // buffers and scratch rows
  int row_slot_ = 0, current_slot_ = 0, digit_slot_ = 0, column_slot_ = 0;
  int frame_ = 0;
  int lane_buffer_ = 0, lane_bytes_ = 32;  // four vectors: operands a, b, c and the result of lane-wise work
  std::size_t frame_patch_ = 0;

  std::map<std::pair<std::uint64_t, bool>, Xbyak::Label> pool_;
  Xbyak::Label mask32_, mask64_, odd_words_, lanes32_, lanes64_;
};

// Fixed places of the stack frame.
namespace frame {
inline constexpr int kLanes = 0;  // the lane buffer, unless vectors have 512 bits
inline constexpr int kRemaining = 128, kRows = 136, kSizes = 144, kSegment = 152, kLimit = 160, kGroup = 168;
inline constexpr int kReducedRow = 176;
inline constexpr int kMask32 = 192, kMask64 = 224, kFree = 256;
}  // namespace frame

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_X86_EMITTER_H_
