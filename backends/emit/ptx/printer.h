// Printer: one kernel's PTX. Parts: operations (operations.cpp, functions.cpp), places and memory (memory.cpp), the
// loop over the lanes of a vector (body.cpp), and the walks of the skeletons (points.cpp, rows.cpp, columns.cpp,
// transposed.cpp). Where a walk is a loop at run time its registers are written again; all else is unrolled here.
// Owner: backends/emit.
#ifndef FRAMEFUSE_BACKENDS_EMIT_PTX_PRINTER_H_
#define FRAMEFUSE_BACKENDS_EMIT_PTX_PRINTER_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/emit/cuda/kernel_facts.h"
#include "backends/emit/ptx/text.h"

namespace framefuse::emit::ptx {

class Printer : private KernelFacts {
 public:
  Printer(const kernel_ir::Kernel& kernel, const CudaForm& form, std::string name)
      : KernelFacts(kernel, form), name_(std::move(name)) {}
  absl::StatusOr<std::string> Run();

 private:
  using DType = kernel_ir::DType;
  using Type = kernel_ir::Type;

  // Values of one loop over elements, and which unrolled copy or chunk it is.
  struct Body {
    std::vector<ValueId> values;
    int copy = -1;
  };
  // A point, or the first of a vector: pointers by buffer of its row and of its segment, the elements' addresses at
  // `index`; `plus`: elements past all this.
  struct Spot {
    std::vector<Operand> row, segment, here;
    Operand index;
    std::int64_t plus = 0;
  };
  // What lanes are: all there; `n` of them; one at an index of its own.
  enum class Lanes : std::uint8_t { kWhole, kGuarded, kSingle };

  void Fail(const std::string& what);
  Operand M(Class c, std::string_view name, const std::vector<Operand>& from) { return t_.Make(c, name, from); }

  // --- operations.cpp
  static Class ClassOf(Type type);
  static const char* Suffix(Type type);  // s32, s64, f32, f64
  static Operand Constant(Type type, std::uint64_t imm);
  Operand Operation(const Inst& in);
  Operand Arithmetic(const Inst& in, const Operand& a, const Operand& b);
  Operand Extreme(const Inst& in, const Operand& a, const Operand& b, bool max, bool raw);
  Operand Compare(const Inst& in, const Operand& a, const Operand& b);
  Operand ComparePreds(Op op, const Operand& a, const Operand& b);
  Operand Bits(const Inst& in, const Operand& a, const Operand& b);
  Operand Select(Type type, const Operand& condition, const Operand& a, const Operand& b);
  Operand Cast(Type from, Type to, const Operand& v);
  Operand Wrap(const Inst& in, const Operand& v);
  Operand Bitcast(Type from, Type to, const Operand& v);
  Operand Predicate(const Operand& v);  // an immediate as a register
  // Two values of a reduction; what changes nothing.
  void Combine(const Operand& to, const Inst& in, const Operand& a, const Operand& b);
  static Operand Identity(const Inst& in);

  // --- functions.cpp
  Operand Function(std::string_view name, const Operand& a, const Operand& b);

  // --- memory.cpp: arguments, indices, addresses, single elements
  int SizeWord(int slot) const { return buffers() * f_.tensors + slot; }
  Operand Argument(int word, int offset, Class c);
  Operand Size(int slot) { return Argument(SizeWord(slot), 0, Class::k64); }
  Operand Size32(int slot) { return Argument(SizeWord(slot), 0, Class::k32); }
  Operand IndexSize(int slot) { return f_.narrow ? Size32(slot) : Size(slot); }
  Operand Special(const char* name, bool wide);  // tid.x …
  Operand SpecialIndex(const char* name) { return Special(name, !f_.narrow); }
  const char* IndexSuffix() const { return f_.narrow ? ".u32" : ".s64"; }
  Class IndexClass() const { return f_.narrow ? Class::k32 : Class::k64; }
  Operand Index(std::string_view name, const std::vector<Operand>& from);  // "add" of the index type
  Operand WideIndex(const Operand& v) { return f_.narrow ? v : M(Class::k64, "cvt.u64.u32", {v}); }
  Operand Wide(const Operand& index);  // 64 bits
  Operand Divide(const Operand& n, int slot);
  void BasePointers();
  // Elements to go to a row from its number, by the first `dims` outer dimensions; by buffer, empty: none.
  std::vector<Operand> RowOffsets(Operand rest, int dims);
  Operand Past(const Operand& base, int b, const Operand& elements);  // a pointer further on
  void SetRow(const std::vector<Operand>& from, const std::vector<Operand>& offsets);
  // Sets spot_.here; spot_.plus is 0. `vectors`: of contiguous buffers, too.
  void GoTo(const Operand& index, bool vectors = true);
  std::pair<Operand, std::int64_t> ElementPlace(int b, int k);
  static const char* MemorySuffix(DType dtype);
  Operand FromRaw(DType dtype, const Operand& raw);
  Operand ToRaw(DType dtype, const Operand& value);
  Operand LoadRaw(DType dtype, const Operand& base, std::int64_t offset, const Operand& guard);
  void StoreOne(DType dtype, const Operand& base, std::int64_t offset, const Operand& value, const Operand& guard);

  // --- vectors.cpp
  int Words(DType dtype) const;
  std::vector<Operand> NewWords(DType dtype);
  void MoveWords(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& words,
                 const std::string& name);
  // At the spot. `once`: the kernel reads it a single time and writes little.
  void LoadVector(int b, const std::vector<Operand>& to, bool once = false);
  void StoreVector(int b, const std::vector<Operand>& words);
  static DType BitsOf(DType dtype);
  std::vector<Operand> Compose(int size, std::vector<Operand> raw);
  Operand FromWords(DType dtype, const std::vector<Operand>& words, int k);
  std::vector<Operand> Pack(DType dtype, const std::vector<Operand>& lanes);

  // --- body.cpp
  bool Whole() const { return f_.exact || lanes_ != Lanes::kGuarded; }
  // Whether the lane is there; nothing: it always is.
  Operand LaneGuard(int k) const { return Whole() ? Operand() : lane_guards_[static_cast<std::size_t>(k)]; }
  void CountLanes(const Operand& limit);
  void Start();
  Operand V(ValueId id);
  Operand Right(ValueId id, int k);
  void Scalar(ValueId id);
  void Element(ValueId id, int k, const Body& body);
  Operand ElementLoad(const Inst& in, int k, const Body& body);
  void EmitBody(const Body& body);
  void EmitSingles(const Body& body);
  // From `at` on, whose register is written, while it is less than `limit`.
  void Loop(const Operand& at, const Operand& limit, const Operand& step, const std::function<void()>& body);

  // --- points.cpp
  void Points();
  void PointPlace(const Operand& first, int copy);
  void PointScalars(const Block& block);
  void Copies(const Operand& first, const Operand& total, const Block& block, const Body& body);
  void WholeOrSingles(const Body& body);

  // --- rows.cpp
  void Rows();
  void OneRow(const Operand& row, const Operand& rows);
  void HoldChunks();
  void EachChunk(const std::function<void(int)>& body);
  void SetSegment(const Operand& s);
  void EarlyScalars();
  void RowScalars(const Block& block);
  void ScalarOfRow(ValueId id);
  void RowLoop(const Block& block);
  void RowWalk(const std::vector<ValueId>& elements);
  void SegmentScalars(const Block& block, int segment);
  Operand Shuffled(Type type, const Operand& v, int distance);
  Operand ReduceWarp(ValueId id, Operand v, int from);
  Operand ReduceBlock(ValueId id);

  Text t_;
  absl::Status status_;
  const std::string name_;
  Lanes lanes_ = Lanes::kGuarded;
  std::map<std::pair<int, Class>, Operand> arguments_;  // by byte
  std::map<std::string, Operand> specials_;
  std::map<ValueId, Operand> of_kernel_;                    // values that are the same everywhere
  std::map<ValueId, std::vector<Operand>> segment_values_;  // loads by segment
  std::set<ValueId> early_;                                 // values of a row known before its first loop
  std::set<std::string> shared_;
  std::map<std::pair<int, int>, std::vector<Operand>> held_;  // words for the whole row, by buffer and chunk
  std::map<ValueId, Operand> values_;                         // of where the text stands
  std::vector<Operand> base_;                                 // pointers by buffer
  Spot spot_;
  Operand lane_, first_;          // thread of the row, and its first point
  Operand inner_;                 // points of the row
  Operand fast_, count_, whole_;  // vectors are aligned; lanes that there are; both say: whole
  std::vector<Operand> lane_guards_;
  std::map<std::pair<int, int>, std::vector<Operand>> vectors_;        // words in registers, by buffer and copy
  std::map<std::pair<int, int>, std::vector<Operand>> scratch_lanes_;  // by scratch row and chunk
  std::map<int, std::vector<Operand>> lanes_to_store_;
  std::map<ValueId, std::vector<Operand>> accumulators_;
};

}  // namespace framefuse::emit::ptx

#endif  // FRAMEFUSE_BACKENDS_EMIT_PTX_PRINTER_H_
