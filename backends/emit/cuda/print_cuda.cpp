// See print_cuda.h: the skeletons' walks over rows and points.
#include "backends/emit/cuda/print_cuda.h"

#include <bit>

#include "backends/emit/cuda/body_printer.h"

namespace framefuse::emit {
namespace {

using absl::StrCat;

class Printer : private BodyPrinter {
 public:
  Printer(const kernel_ir::Kernel& kernel, const CudaForm& form, std::string name)
      : BodyPrinter(kernel, form, std::move(name)) {}

  std::string Run() {
    Signature();
    switch (k_.skeleton) {
      case Skeleton::kColumn:
        Column();
        break;
      case Skeleton::kRow:
        Rows();
        break;
      case Skeleton::kTransposed:
        Transposed();
        break;
      case Skeleton::kPointwise:
      case Skeleton::kHorizontal:
        Points();
        break;
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  // x / n and x % n of what is not negative. Of powers of two NVRTC, told to be quick, divides.
  static std::string Over(const std::string& x, int n) {
    const auto by = static_cast<unsigned>(n);
    return std::has_single_bit(by) ? StrCat("(", x, " >> ", std::countr_zero(by), ")") : StrCat("(", x, " / ", n, ")");
  }
  static std::string Rest(const std::string& x, int n) {
    return std::has_single_bit(static_cast<unsigned>(n)) ? StrCat("(", x, " & ", n - 1, ")")
                                                         : StrCat("(", x, " % ", n, ")");
  }

  // --- pointwise

  bool HasOwnSizes() const { return f_.tensors > 1 && !f_.alike; }

  void Points() {
    const Block& block = k_.blocks.front();
    Body body{ElementsOf(block), "[u]"};
    if (f_.unroll == 1) body.copy = "";
    const std::string step = StrCat(f_.threads * f_.unroll);
    std::string total = S(CudaSizes::kUnits);
    if (HasOwnSizes()) {
      Line(StrCat("const i64 inner = a.s[", at_.Elements(0), " + blockIdx.y];"));
      total = Over(StrCat("(inner + ", f_.vector - 1, ")"), f_.vector);
    }
    Line(StrCat("const Index total = (Index)", total, ";"));
    Open(StrCat("for (Index first = (Index)blockIdx.x * ", step,
                " + threadIdx.x; first < total; first += (Index)gridDim.x * ", step, ")"));
    if (f_.unroll > 1) {
      for (int b : VectorReads(body.values)) {
        Line(StrCat(VectorType(b), " x", b, "[", f_.unroll, "];"));
        copies_.insert(b);
      }
      OpenCopies();
      for (int b : VectorReads(body.values)) LoadVector(b, StrCat("x", b, "[u]"));
      CloseCopies(!f_.full);
      OpenCopies();
      PointScalars(block);
      EmitBody(body);
      CloseCopies(!f_.full);
      copies_.clear();
    } else {
      Line("const Index at = first;");
      PointPlace();
      PointScalars(block);
      f_.exact ? EmitBody(body) : WholeOrSingles(body);
    }
    Close();
  }

  // Guards for each lane of each buffer would be most of the code.
  void WholeOrSingles(const Body& body) {
    if (f_.vector == 1) return EmitSingles(body);
    Open(StrCat("if (fast && n == ", f_.vector, ")"));
    lanes_ = LanesAre::kWhole;
    EmitBody(body);
    lanes_ = LanesAre::kGuarded;
    --depth_;
    Open("} else");
    EmitSingles(body);
    Close();
  }

  void OpenCopies() {
    OpenUnrolled(StrCat("for (int u = 0; u < ", f_.unroll, "; ++u)"));
    Line(StrCat("const Index at = first + (Index)u * ", f_.threads, ";"));
    if (!f_.full) Open("if (at < total)");
    PointPlace();
  }
  void CloseCopies(bool guarded = true) {
    if (guarded) Close();
    Close();
  }

  void PointPlace() {
    if (f_.rank == 0) {
      Line(StrCat("const i64 i = (i64)at * ", f_.vector, ";"));
    } else {
      Line(StrCat("Index rest = divide(at, ", S(CudaSizes::kVectorsDiv), ");"));
      Line(StrCat("const i64 i = (i64)(at - rest * (Index)", S(CudaSizes::kVectors), ") * ", f_.vector, ";"));
      RowPointers(0, "b", "r");
    }
    CountLanes(HasOwnSizes() ? "inner" : S(CudaSizes::kInner));
  }

  void PointScalars(const Block& block) {
    for (ValueId id : block.code) {
      if (level(id) == Level::kRow && inst(id).op != Op::kStore) Scalar(id);
    }
  }

  // --- rows

  void Rows() {
    Line(StrCat("const i64 rows = ", S(CudaSizes::kUnits), ";"));
    const int together = f_.threads / f_.row_threads;
    Line(StrCat("const int lane = threadIdx.x & ", f_.row_threads - 1, ";"));
    if (f_.row_threads > 32) {
      for (std::size_t id = 0; id < k_.insts.size(); ++id) {
        if (!IsReduce(static_cast<ValueId>(id))) continue;
        Line(StrCat("__shared__ ", LaneType(k_.insts[id].type), " parts", id, "[", f_.row_threads / 32, "];"));
      }
    }
    Open(StrCat("for (i64 row = (i64)blockIdx.x * ", together, " + threadIdx.x / ", f_.row_threads,
                "; row < rows; row += (i64)gridDim.x * ", together, ")"));
    Line("Index rest = (Index)row;");
    RowPointers(0, "b", "r");
    std::string inner = S(CudaSizes::kInner);
    if (f_.split) inner = StrCat("row + 1 < rows ? ", inner, " : ", S(CudaSizes::kSplitTotal), " - row * ", inner);
    Line(StrCat("const Index inner = (Index)(", inner, ");"));
    HoldChunks();
    EarlyScalars();
    for (const Block& block : k_.blocks) block.kind == BlockKind::kLoop ? RowLoop(block) : RowOnce(block);
    if (f_.row_threads > 32) Line("__syncthreads();");
    Close();
  }

  void HoldChunks() {
    if (f_.chunks == 0) return;
    held_ = HeldBuffers();
    for (int b : held_) Line(StrCat(VectorType(b), " x", b, "[", f_.chunks, "];"));
    if (KeepsScratch()) {
      for (const auto& [slot, value] : scratch_)
        Line(StrCat("Lanes<", LaneType(inst(value).type), ", ", f_.vector, "> s", slot, "[", f_.chunks, "];"));
    }
    OpenChunk();
    for (int b : held_) LoadVector(b, StrCat("x", b, "[c]"), !StoresElements());
    CloseChunk();
  }

  void OpenChunk() {
    if (f_.chunks > 0) {
      OpenUnrolled(StrCat("for (int c = 0; c < ", f_.chunks, "; ++c)"));
      std::string chunk = "c";
      if (k_.segments) {
        Line(StrCat("const int s = c / ", f_.chunks / f_.segments, ";"));
        chunk = StrCat("(c % ", f_.chunks / f_.segments, ")");
      }
      Line(StrCat("const Index i = (Index)(", chunk, " * ", f_.row_threads, " + lane) * ", f_.vector, ";"));
      if (!f_.full) Open("if (i < inner)");
    } else {
      Open(StrCat("for (Index i = (Index)lane * ", f_.vector, "; i < inner; i += ", f_.row_threads * f_.vector, ")"));
    }
    CountLanes("inner");
  }
  void CloseChunk() {
    if (!f_.full) Close();
    if (f_.chunks > 0) Close();
  }

  // What does not wait for a reduction is asked of memory beside the row itself.
  void EarlyScalars() {
    for (std::size_t n = 0; n < k_.insts.size(); ++n) {
      const auto id = static_cast<ValueId>(n);
      const Inst& in = inst(id);
      if (level(id) != Level::kSegment || in.op != Op::kLoad || f_.chunks == 0) continue;
      Line(StrCat(LaneType(in.type), " e", id, "[", f_.segments, "];"));
      Line("#pragma unroll");
      Line(StrCat("for (int s = 0; s < ", f_.segments, "; ++s) e", id, "[s] = load(*(", Place(in, ""), "));"));
    }
    for (ValueId id : EarlyValues()) {
      Scalar(id);
      early_.insert(id);
    }
  }

  void RowScalars(const Block& block) {
    for (ValueId id : block.code) {
      if (early_.contains(id)) continue;
      if (level(id) == Level::kKernel && inst(id).op != Op::kStore) continue;
      if (level(id) > Level::kRow || IsReduce(id)) continue;
      if (inst(id).op == Op::kStore) Line("if (lane == 0)");
      Scalar(id);
    }
  }

  void RowOnce(const Block& block) { RowScalars(block); }

  void RowLoop(const Block& block) {
    RowScalars(block);
    const bool together = f_.chunks == 0 && f_.unroll > 1;
    const Body body{ElementsOf(block), f_.chunks > 0 ? "[c]" : together ? "[u]" : ""};
    if (body.values.empty()) return;
    DeclareAccumulators(block, false);
    const bool walks = k_.segments && f_.chunks == 0;
    if (walks) {
      Open(StrCat("for (i64 s = 0; s < ", S(CudaSizes::kSegments), "; ++s)"));
      SegmentScalars(block);
    }
    if (together) {
      WalkTogether(body);
    } else {
      OpenChunk();
      if (k_.segments && !walks) SegmentScalars(block);
      EmitBody(body);
      CloseChunk();
    }
    if (walks) Close();
    for (ValueId id : block.code) {
      if (!IsReduce(id)) continue;
      const std::string functor = ReductionFunctor(inst(id).op);
      Define(id, f_.row_threads == 32
                     ? StrCat("reduce_warp(acc", id, ", ", functor, "())")
                     : StrCat("reduce_block<", f_.row_threads / 32, ">(acc", id, ", parts", id, ", ", functor, "())"));
    }
  }

  void SegmentScalars(const Block& block) {
    for (ValueId id : SegmentValuesOf(block)) {
      if (inst(id).op == Op::kLoad && f_.chunks > 0) {
        Define(id, StrCat("e", id, "[s]"));
        continue;
      }
      if (inst(id).op == Op::kStore) Line("if (lane == 0)");
      Scalar(id);
    }
  }

  // --- columns

  void Column() {
    const int width = 32 * f_.vector, warps = f_.threads / 32, last = f_.rank - 1;
    Line("const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;");
    BatchPlace(CudaSizes::kVectors, "batch");
    Line(StrCat("const i64 left = (i64)panel * ", width, ";"));
    Line(StrCat("const i64 i = left + lane * ", f_.vector, ";"));
    std::string rows = S(CudaSizes::kUnits);
    Line(StrCat("i64 rows = ", rows, ";"));
    if (f_.split) {
      Line(StrCat("const i64 part_rows = ", S(CudaSizes::kSplitTotal), " - (i64)d", last - 1, " * rows;"));
      Line("rows = part_rows < 0 ? 0 : (part_rows < rows ? part_rows : rows);");
    }
    const Block& block = k_.blocks.front();
    DeclareAccumulators(block, true);
    ColumnWalk(block, warps, last);
    ColumnResults(block, width, warps);
  }

  // Where a block's batch begins: q<b>; `panel` is the rest of the block's number.
  void BatchPlace(int per_batch_slot, const char* name) {
    const int last = f_.rank - 1;
    Line(StrCat("const Index ", name, " = divide((Index)blockIdx.x, ", S(CudaSizes::kVectorsDiv), ");"));
    Line(StrCat("const Index panel = (Index)blockIdx.x - ", name, " * (Index)", S(per_batch_slot), ";"));
    Batches(name, last);
  }

  void Batches(const char* name, int last) {
    if (last > 0) Line(StrCat("Index rest = ", name, ";"));
    for (int d = last - 1; d >= 0; --d) {
      Line(StrCat("const Index n", d, " = divide(rest, ", S(at_.ExtentDiv(d)), "), d", d, " = rest - n", d,
                  " * (Index)", S(at_.Extent(d)), ";"));
      Line(StrCat("rest = n", d, ";"));
    }
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      std::string text = StrCat("auto q", b, " = b", b);
      for (int d = 0; d < last; ++d)
        absl::StrAppend(&text, " + (i64)d", d, " * ", S(at_.Outer(static_cast<int>(b), d)));
      Line(text + ";");
    }
  }

  void LastRow(const std::string& row, int last) {
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      Line(StrCat("auto r", b, " = q", b, " + ", row, " * ", S(at_.Outer(static_cast<int>(b), last)), ";"));
    }
  }

  void ColumnWalk(const Block& block, int warps, int last) {
    const Body body{ElementsOf(block), f_.unroll > 1 ? "[u]" : ""};
    Open(StrCat("if (i < ", S(CudaSizes::kInner), ")"));
    CountLanes(S(CudaSizes::kInner));
    Open(StrCat("for (i64 first = warp; first < rows; first += ", warps * f_.unroll, ")"));
    if (f_.unroll > 1) {
      for (int b : VectorReads(body.values)) {
        Line(StrCat(VectorType(b), " x", b, "[", f_.unroll, "];"));
        copies_.insert(b);
      }
      OpenRowCopies(warps, last);
      for (int b : VectorReads(body.values)) LoadVector(b, StrCat("x", b, "[u]"), !StoresElements());
      CloseCopies(!f_.full);
      OpenRowCopies(warps, last);
    } else {
      Line("const i64 row = first;");
      LastRow("row", last);
    }
    for (ValueId id : block.code) {
      if (level(id) == Level::kRow && inst(id).op != Op::kStore) Scalar(id);
    }
    EmitBody(body);
    if (f_.unroll > 1) CloseCopies(!f_.full);
    copies_.clear();
    Close();
    Close();
  }

  void OpenRowCopies(int warps, int last) {
    OpenUnrolled(StrCat("for (int u = 0; u < ", f_.unroll, "; ++u)"));
    Line(StrCat("const i64 row = first + u * ", warps, ";"));
    if (!f_.full) Open("if (row < rows)");
    LastRow("row", last);
  }

  // The warps' partial results, added in order; then one thread a column runs the later blocks.
  void ColumnResults(const Block& block, int width, int warps) {
    bool wide = false;
    for (ValueId id : block.code) wide = wide || (IsReduce(id) && kernel_ir::Is64Bit(inst(id).type));
    Line(StrCat("__shared__ __align__(16) ", wide ? "double" : "float", " parts[", warps, "][", width, "];"));
    for (ValueId id : block.code) {
      if (!IsReduce(id)) continue;
      const std::string type = LaneType(inst(id).type);
      Line(StrCat(type, " v", id, " = ", ReductionIdentity(inst(id)), ";"));
      Line("__syncthreads();");
      Line("#pragma unroll");
      Line(StrCat(Lanes(), " ((", type, "*)parts[warp])[lane * ", f_.vector, " + k] = acc", id, "[k];"));
      Line("__syncthreads();");
      Open(StrCat("if (threadIdx.x < ", width, ")"));
      Line(StrCat("for (int w = 0; w < ", warps, "; ++w) v", id, " = ", ReductionFunctor(inst(id).op), "()(v", id,
                  ", ((", type, "*)parts[w])[threadIdx.x]);"));
      Close();
    }
    Open(StrCat("if (threadIdx.x < ", width, " && left + threadIdx.x < ", S(CudaSizes::kInner), ")"));
    Line("const i64 i = left + threadIdx.x;");
    LastRow("(i64)0", f_.rank - 1);
    for (std::size_t b = 1; b < k_.blocks.size(); ++b) {
      for (ValueId id : k_.blocks[b].code) ColumnEnd(id);
    }
    Close();
  }

  void ColumnEnd(ValueId id) {
    const Inst& in = inst(id);
    if (level(id) == Level::kKernel && in.op != Op::kStore) return;
    const bool uniform =
        in.slot >= 0 && (in.op == Op::kLoad || in.op == Op::kStore) && buffer(in.slot).inner == Inner::kUniform;
    if (in.op == Op::kStore) return Line(StrCat("store(", Place(in, uniform ? "" : "i"), ", v", in.args[0], ");"));
    if (in.op == Op::kLoad) return Define(id, StrCat("load(*(", Place(in, uniform ? "" : "i"), "))"));
    Define(id, in.op == Op::kIota ? StrCat("(", LaneType(in.type), ")i") : Right(id));
  }

  // --- transposed

  void Transposed() {
    const int last = f_.rank - 1;
    Line(StrCat("const Index tile = divide((Index)blockIdx.x, ", S(CudaSizes::kVectorsDiv), ");"));
    Line(StrCat("const i64 left = (i64)((Index)blockIdx.x - tile * (Index)", S(CudaSizes::kVectors), ") * ",
                f_.tile_columns, ";"));
    if (last > 0) {
      Line(StrCat("const i64 batch = tile / (Index)", S(CudaSizes::kDown), ", top = ((i64)tile - batch * ",
                  S(CudaSizes::kDown), ") * ", f_.tile_rows, ";"));
    } else {
      Line(StrCat("const i64 top = (i64)tile * ", f_.tile_rows, ";"));
    }
    Batches("(Index)batch", last);
    Line(StrCat("const i64 rows = ", S(CudaSizes::kUnits), ", inner = ", S(CudaSizes::kInner), ";"));
    const Block& block = k_.blocks.front();
    const Body body{ElementsOf(block), "[u]"};
    // The other buffers are read beside the tiles, not after them.
    const int parts = PartsOf(f_.tile_rows * f_.tile_columns / f_.vector);
    if (parts <= 4 && !VectorReads(body.values).empty()) {
      for (int b : VectorReads(body.values)) {
        Line(StrCat(VectorType(b), " x", b, "[", parts, "];"));
        copies_.insert(b);
      }
      OpenTilePart(parts, last);
      for (int b : VectorReads(body.values)) LoadVector(b, StrCat("x", b, "[u]"));
      CloseCopies();
    }
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      if (IsTile(static_cast<int>(b))) TurnTile(static_cast<int>(b));
    }
    Line("__syncthreads();");
    OpenTilePart(parts, last);
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      if (!IsPaired(static_cast<int>(b))) continue;
      Line(StrCat(VectorType(static_cast<int>(b)), " z", b, ";"));
      Line(StrCat("load_vec(z", b, ", (const ", MemoryType(buffer(static_cast<int>(b)).dtype), "*)&t", b, "[tr * ",
                  kTile / 2, " + (tc >> 3 ^ tr >> 3) * 4]);"));
    }
    PointScalars(block);
    EmitBody(body);
    CloseCopies();
    copies_.clear();
  }

  // A thread's vectors of the tile: u, with its row and column.
  void OpenTilePart(int parts, int last) {
    const int across = f_.tile_columns / f_.vector;
    if (parts <= 4) Line("#pragma unroll");
    Open(StrCat("for (int u = 0; u < ", parts, "; ++u)"));
    Line(StrCat("const int j = u * ", f_.threads, " + threadIdx.x, tr = ", Over("j", across),
                ", tc = ", Rest("j", across), " * ", f_.vector, ";"));
    Line("const i64 row = top + tr, i = left + tc;");
    const bool all = f_.tile_rows * across % f_.threads == 0;
    Open(StrCat("if (row < rows && i < inner", all ? "" : StrCat(" && tr < ", f_.tile_rows), ")"));
    LastRow("row", last);
    CountLanes("inner");
  }

  void TurnTile(int b) {
    if (IsPaired(b)) return TurnPairs(b);
    const int down = f_.tile_rows / f_.vector;
    const int pitch = f_.tile_columns + (ElementSize(buffer(b).dtype) <= 2 ? 2 : 1);
    Line(StrCat("__shared__ ", MemoryType(buffer(b).dtype), " t", b, "[", f_.tile_rows, "][", pitch, "];"));
    if (PartsOf(f_.tile_columns * down) <= 4) Line("#pragma unroll");
    Open(StrCat("for (int j = threadIdx.x; j < ", f_.tile_columns * down, "; j += ", f_.threads, ")"));
    Line(StrCat("const int tc = ", Over("j", down), ", tr = ", Rest("j", down), " * ", f_.vector, ";"));
    Open("if (left + tc < inner && top + tr < rows)");
    LoadDown(b, "x", "tc");
    Line("#pragma unroll");
    Line(StrCat(Lanes(), " t", b, "[tr + k][tc] = x.e[k];"));
    Close();
    Close();
  }

  // Columns two by two, so that all of shared memory's ways are whole words. Groups of eight columns lie in another
  // order in each band of eight rows: then neither the writes down nor the reads across meet in a bank.
  void TurnPairs(int b) {
    const std::string t = StrCat("t", b);
    Line(StrCat("__shared__ __align__(16) u32 ", t, "[", kTile * kTile / 2, "];"));
    Line("#pragma unroll");
    Open(StrCat("for (int j = threadIdx.x; j < ", kTile * kTile / 16, "; j += ", f_.threads, ")"));
    Line("const int p = j >> 3, tr = (j & 7) * 8;");
    Open("if (left + 2 * p < inner && top + tr < rows)");
    LoadDown(b, "x", "2 * p");
    Line(StrCat(VectorType(b), f_.exact ? " y;" : " y = x;"));  // exact: the columns are even
    if (!f_.exact) Line("if (left + 2 * p + 1 < inner)");
    LoadDown(b, "y", "2 * p + 1");
    Line("#pragma unroll");
    Line(StrCat(Lanes(), " ", t, "[(tr + k) * ", kTile / 2,
                " + ((p >> 2) ^ (j & 7)) * 4 + (p & 3)] = pair(x.e[k], y.e[k]);"));
    Close();
    Close();
  }

  // A vector down column `tc`, into the variable `x`, which is declared where it is new.
  void LoadDown(int b, const char* x, const char* tc) {
    const std::string there = "rows - (top + tr)";
    if (x[0] == 'x') {
      if (!f_.full) Line(StrCat("const int n = ", there, " < ", f_.vector, " ? (int)(", there, ") : ", f_.vector, ";"));
      Line(StrCat(VectorType(b), " x;"));
    }
    const std::string from = StrCat(x, ", q", b, " + (top + tr) + (left + ", tc, ") * ", S(at_.InnerStride(b)));
    Line(f_.full ? StrCat("load_vec(", from, ");")
                 : StrCat("load_part(", from, ", n, ", f_.exact ? "true" : "fast", ");"));
  }
  std::set<ValueId> early_;  // values of a row that are known before its first loop
};

}  // namespace

absl::StatusOr<std::string> PrintCuda(const kernel_ir::Kernel& kernel, const CudaForm& form, const std::string& name) {
  if (absl::Status status = Verify(kernel); !status.ok()) return status;
  for (const kernel_ir::Inst& inst : kernel.insts) {
    if (ClassOf(inst.op) == kernel_ir::OpClass::kScan) return absl::UnimplementedError("a scan");
  }
  return Printer(kernel, form, name).Run();
}

}  // namespace framefuse::emit
