// Printer: one kernel's PTX. Parts: operations (operations.cpp, functions.cpp), places and memory (memory.cpp), the
// loop over the lanes of a vector (body.cpp), and the walks of the skeletons (points.cpp, rows.cpp and rounds.cpp,
// columns.cpp, transposed.cpp). Where a walk is a loop at run time its registers are written again; all else is
// unrolled here.
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

// What a module declares for its kernels: the bits of 2 / pi after 32 zeros.
inline constexpr const char* kTwoOverPi = "$two_over_pi";

class Printer : private KernelFacts {
 public:
  Printer(const kernel_ir::Kernel& kernel, const CudaForm& form, std::string name)
      : KernelFacts(kernel, form), name_(std::move(name)) {}
  absl::StatusOr<std::string> Run();
  static bool HasExact(kernel_ir::Op op);  // an f32 function that is printed as it is

 private:
  using DType = kernel_ir::DType;
  using Type = kernel_ir::Type;

  // Values of one loop over elements, and which unrolled copy or chunk it is.
  struct Body {
    std::vector<ValueId> values;
    int copy = -1;
  };
  // A point, or the first of a vector: pointers by buffer of its row and of its segment, the elements' addresses at
  // `index` (not there yet: LateHere); `outer`: coordinates of a pointwise kernel's row; `plus`: elements past all
  // this.
  struct Spot {
    std::vector<Operand> row, segment, here, outer;
    Operand index;
    std::map<int, Operand> bytes;  // of the index in 64 bits, by size of an element, where it is known
    std::int64_t plus = 0;
    Operand reduced_row;  // of a column kernel
  };
  // A vector that is being computed: lanes of the next word, words.
  struct Packed {
    std::vector<Operand> lanes, words;
  };
  // What lanes are: all there; `n` of them; one at an index of its own.
  enum class Lanes : std::uint8_t { kWhole, kGuarded, kSingle };

  void Fail(const std::string& what);
  Operand M(Class c, std::string_view name, Operands from) { return t_.Make(c, name, from); }

  // --- operations.cpp
  static Class ClassOf(Type type);
  static const char* Suffix(Type type);  // s32, s64, f32, f64
  static Operand Constant(Type type, std::uint64_t imm);
  Operand Operation(const Inst& in);
  Operand ScalarQuotient(const Inst& in);
  Operand AsDouble(ValueId id);
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

  // --- exact_functions.cpp
  Operand Exact(Op op, const Operand& x);
  Operand ExactExp(const Operand& x);
  Operand ExactTanh(const Operand& x);

  // --- sine.cpp
  Operand ExactSine(const Operand& x, bool cosine);
  void RestOfLargeAngle(const Operand& x, const Operand& rest, const Operand& turns);

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
  Operand Index(std::string_view name, Operands from);  // "add" of the index type
  Operand WideIndex(const Operand& v) { return f_.narrow ? v : M(Class::k64, "cvt.u64.u32", {v}); }
  Operand Times(const Operand& index, std::int64_t n);
  Operand Wide(const Operand& index);  // 64 bits
  Operand Divide(const Operand& n, int slot);
  void BasePointers();
  Operand TableArgument(int word, int words_each, Class c);
  // The first `dims` outer coordinates of a row from its number, in 64 bits; elements to go there (empty: none);
  // pointers by buffer.
  std::vector<Operand> Coordinates(Operand rest, int dims);
  void Scale(const std::vector<Operand>& at);
  Operand AtCoordinates(Operand from, int b, const std::vector<Operand>& at);
  std::vector<Operand> Pointers(const std::vector<Operand>& at);
  Operand Past(const Operand& base, int b, const Operand& elements);  // a pointer further on
  void SetRow(const std::vector<Operand>& row) { spot_.row = spot_.segment = row; }
  void GoTo(const Operand& index);  // spot_.here; spot_.plus is 0
  void CountBytes();                // spot_.bytes
  Operand Here(int b);
  std::pair<Operand, std::int64_t> ElementPlace(int b, int k);
  Operand LoadAt(const Inst& in, const Operand& guard);
  void CheckInRange(const Operand& i, const Operand& limit, const Operand& guard);
  static const char* MemorySuffix(DType dtype);
  static Class RawClass(DType dtype);  // of the register that holds an element as it is in memory
  Operand FromRaw(DType dtype, const Operand& raw);
  Operand ToRaw(DType dtype, const Operand& value);
  Operand LoadRaw(DType dtype, const Operand& base, std::int64_t offset, const Operand& guard);
  void StoreOne(DType dtype, const Operand& base, std::int64_t offset, const Operand& value, const Operand& guard);

  // --- vectors.cpp
  int Words(DType dtype) const;
  std::vector<Operand> NewWords(DType dtype);
  void TakeWords(DType dtype, const std::vector<Operand>& to, const std::vector<Operand>& from);  // become them
  void MoveWords(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& words,
                 const std::string& name);
  // The same by elements, where not all lanes are there.
  void LoadLanes(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& to);
  // Whole, if there is all of it and it is aligned (whole_), else by elements.
  void LoadPart(DType dtype, const Operand& base, std::int64_t offset, const std::vector<Operand>& to);
  Operand RawOfWords(DType dtype, const std::vector<Operand>& words, int k);  // in the low bits
  // At the spot. `once`: the kernel reads it a single time and writes little.
  void LoadVector(int b, const std::vector<Operand>& to, bool once = false);
  void StoreVector(int b, const std::vector<Operand>& words);
  static DType BitsOf(DType dtype);
  std::vector<Operand> Compose(int size, std::vector<Operand> raw);
  Operand FromWords(DType dtype, const std::vector<Operand>& words, int k);
  void Put(int b, const Operand& lane);  // the next lane of what is to be stored

  // --- body.cpp
  bool Whole() const { return f_.exact || lanes_ != Lanes::kGuarded; }
  // Whether the lane is there; nothing: it always is.
  Operand LaneGuard(int k) const { return Whole() ? Operand() : lane_guards_[static_cast<std::size_t>(k)]; }
  void CountLanes(const Operand& limit);
  void CountLanesTo(const Operand& limit, const Operand& from);
  void Start();
  Operand V(ValueId id);
  Operand Right(ValueId id, int k);
  void Scalar(ValueId id);
  void Element(ValueId id, int k, const Body& body);
  Operand ElementLoad(const Inst& in, int k, const Body& body);
  void EmitBody(const Body& body);
  std::set<ValueId> PackedExtremes(const Body& body) const;
  Operand RoundedPair(const Operand& low, const Operand& high);
  void PackedExtreme(ValueId id, const Body& body);
  void UnpackExtremes();
  void EmitSingles(const Body& body);
  // From `at` on, whose register is written, while it is less than `limit`.
  void Loop(const Operand& at, const Operand& limit, const Operand& step, const std::function<void()>& body);
  // The same over the units of the grid.
  void GridLoop(const Operand& at, const Operand& limit, int step, const std::function<void()>& body);

  // --- points.cpp
  void Points();
  void PointPlace(const Operand& first, int copy);
  Operand LateHere(int b);
  std::vector<Operand> RowOfPoint();
  void PointScalars(const Block& block);
  void Copies(const Operand& first, const Operand& total, const Block& block, const Body& body);
  void CopiesInRounds(const Operand& first, const Block& block, const Body& body);
  void TakePlace(const Spot& to, const Spot& from, const std::set<int>& read);  // but where vectors were read
  void WholeOrSingles(const Body& body);

  // --- rows.cpp
  void Rows();
  void OneRow(const Operand& row, const Operand& rows);
  void HoldChunks();
  void EachChunk(const std::function<void(int)>& body);
  void SetSegment(const Operand& s);
  Operand SegmentPlace(int b, const Operand& s);
  void EarlyScalars();
  void RowScalars(const Block& block);
  void ScalarOfRow(ValueId id);
  void RowLoop(const Block& block);
  void RowWalk(const std::vector<ValueId>& elements);
  void SegmentScalars(const Block& block, int segment);
  Operand Shuffled(Type type, const Operand& v, int distance);
  Operand ReduceWarp(ValueId id, Operand v, int from);
  Operand ReduceBlock(ValueId id);
  Operand ReduceParts(ValueId id, int offset);

  // --- rounds.cpp
  using Turns = std::vector<std::pair<Operand, Operand>>;  // registers, and what they become
  int Rounds(const std::vector<ValueId>& elements) const;  // 1: none
  void ChunksInRounds(const Block& block, const std::vector<ValueId>& elements, int rounds);
  void TurnChunks(const Block& block, int each);
  void PlacesInTurn(const Block& block, const std::vector<ValueId>& elements, Turns* turns);
  bool ReadAfter(const Block& block, int b) const;  // whether a later loop does

  // --- columns.cpp
  void Columns();
  void BatchPlace(int dims);
  void ColumnWalk(const Operand& warp);
  void RowAt(const Operand& row);  // the point of this thread (first_) in a row of the batch
  void ColumnResults(const Operand& left, const Operand& warp);
  void ColumnResult(ValueId id, const Operand& warp, const Operand& mine);
  void ColumnEnd(ValueId id);

  // --- transposed.cpp
  void Transposed();
  // `body` for each of a thread's parts of `all`, with its number in the block.
  void Parts(int all, const std::function<void(const Operand& j, int u)>& body);
  void PartsInRounds(int parts, const std::map<std::pair<int, int>, std::vector<Operand>>& loaded,
                     const std::function<void(const Operand& j, int u)>& body);
  void TilePart(const Operand& j, const std::function<void()>& body);
  std::string Inside(const Operand& row, const Operand& i);
  Operand TileName(int b) const;
  int TilePitch(int b) const;
  void TurnTile(int b);
  void TurnColumn(int b, const Operand& j);
  void TurnPairs(int b, const Operand& j);
  void CountDown(const Operand& from);
  void LoadDown(int b, const Operand& from, const Operand& i, const std::vector<Operand>& to);
  void LoadPairs();
  Operand TileElement(int b, int k);
  static constexpr int kFewWarps = 8;              // each thread combines what each of them has
  static constexpr int kParts = 4;                 // that are unrolled
  static constexpr int kMostParts = 9;             // and where the last one is for some threads
  static constexpr std::size_t kLongText = 36;     // values of all lanes: what is longer is written for one round
  static constexpr std::size_t kMostTurned = 128;  // bytes of a thread that change places between rounds

  Text t_;
  absl::Status status_;
  const std::string name_;
  Lanes lanes_ = Lanes::kGuarded;
  std::map<std::pair<int, Class>, Operand> arguments_;  // by byte
  std::map<std::string, Operand> specials_;
  std::map<ValueId, Operand> of_kernel_;                      // values that are the same everywhere
  std::map<ValueId, std::vector<Operand>> segment_values_;    // loads by segment
  std::set<ValueId> early_;                                   // values of a row known before its first loop
  std::map<ValueId, int> parts_;                              // reductions by warps: where in shared memory
  std::map<int, Operand> part_;                               // of this warp, by bytes
  std::map<std::pair<Operand, int>, Operand> scaled_;         // coordinates, by size of an element
  Operand all_parts_;                                         // of all warps
  Operand leads_;                                             // whether this thread is the first of its warp
  std::map<std::pair<int, std::string>, Operand> segments_;   // pointers, by buffer and number of the segment
  std::map<std::pair<int, int>, std::vector<Operand>> held_;  // words for the whole row, by buffer and chunk
  std::map<ValueId, Operand> values_;                         // of where the text stands
  std::map<int, Operand> tables_;  // where a launch takes several tensors: of this one's words, by their number
  std::vector<Operand> base_;      // pointers by buffer
  Spot spot_;
  std::vector<Operand> batch_, batch_at_;  // pointers, and coordinates, of a batch
  Operand panel_, left_, top_, rows_;      // place of a block, and the rows of its batch
  Operand tile_row_, tile_column_;
  std::map<int, std::vector<Operand>> tile_words_;  // of paired tiles
  Operand lane_, first_;                            // thread of the row, and its first point
  Operand inner_;                                   // points of the row
  Operand fast_, count_, whole_;                    // vectors are aligned; lanes that there are; both say: whole
  std::vector<Operand> lane_guards_;
  std::map<std::pair<int, int>, std::vector<Operand>> vectors_;        // words in registers, by buffer and copy
  std::map<std::pair<int, int>, std::vector<Operand>> scratch_lanes_;  // by scratch row and chunk
  std::map<std::pair<Operand, Operand>, Operand> rounded_;             // pairs of bf16, by what was rounded
  std::map<ValueId, Operand> pairs_;                                   // extremes of halves, two by two
  std::map<int, Packed> packed_;                                       // what is to be stored, by buffer
  std::map<ValueId, std::vector<Operand>> accumulators_;
};

}  // namespace framefuse::emit::ptx

#endif  // FRAMEFUSE_BACKENDS_EMIT_PTX_PRINTER_H_
