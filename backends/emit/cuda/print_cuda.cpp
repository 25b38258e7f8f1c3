// See print_cuda.h. Values uniform in a row are scalars; those of an element are printed inside a loop over the lanes
// of a vector. Owner: backends/emit.
#include "backends/emit/cuda/print_cuda.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/emit/cuda/expressions.h"

namespace framefuse::emit {
namespace {

using absl::StrCat;
using kernel_ir::Arity;
using kernel_ir::Block;
using kernel_ir::BlockKind;
using kernel_ir::ClassOf;
using kernel_ir::Inner;
using kernel_ir::Inst;
using kernel_ir::Kernel;
using kernel_ir::Level;
using kernel_ir::Op;
using kernel_ir::OpClass;
using kernel_ir::Skeleton;
using kernel_ir::ValueId;

class Printer {
 public:
  Printer(const Kernel& kernel, const CudaForm& form, std::string name)
      : k_(kernel), f_(form), at_(kernel, form), name_(std::move(name)), levels_(ComputeLevels(kernel)) {
    for (const Inst& inst : k_.insts) {
      if (inst.op == Op::kScratchStore) scratch_[inst.slot] = inst.args[0];
    }
  }

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
      default:
        Points();
        break;
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  // Values of one loop over elements, and how their vectors are called.
  struct Body {
    std::vector<ValueId> values;  // of elements, in order
    std::string copy;             // index of the unrolled copy or chunk ("[u]"), or nothing
  };

  // --- text

  void Line(const std::string& text) { out_ += std::string(static_cast<std::size_t>(depth_) * 2, ' ') + text + "\n"; }
  void Open(const std::string& text) {
    Line(text + " {");
    ++depth_;
  }
  void OpenUnrolled(const std::string& text) {
    Line("#pragma unroll");
    Open(text);
  }
  void Close() {
    --depth_;
    Line("}");
  }
  std::string S(int slot) const { return StrCat("a.s[", slot, "]"); }
  std::string Lanes() const { return StrCat("for (int k = 0; k < ", f_.vector, "; ++k)"); }

  const Inst& inst(ValueId id) const { return k_[id]; }
  const kernel_ir::Buffer& buffer(int b) const { return k_.buffers[static_cast<std::size_t>(b)]; }
  Level level(ValueId id) const { return levels_[static_cast<std::size_t>(id)]; }
  bool IsReduce(ValueId id) const { return ClassOf(inst(id).op) == OpClass::kReduce; }
  bool IsElement(ValueId id) const { return level(id) == Level::kElement || IsReduce(id); }

  void Signature() {
    Line(StrCat("extern \"C\" __global__ void __launch_bounds__(", f_.threads, ") ", name_,
                "(const __grid_constant__ Args<", k_.buffers.size() * static_cast<std::size_t>(f_.tensors), ", ",
                at_.count(), "> a) {"));
    depth_ = 1;
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      const std::string type = MemoryType(k_.buffers[b].dtype);
      const std::string pointer = k_.buffers[b].written ? type + "*" : "const " + type + "*";
      Line(StrCat(pointer, " __restrict__ ", f_.rank == 0 ? "r" : "b", b, " = (", pointer, ")a.b[", b,
                  f_.tensors > 1 ? StrCat(" + blockIdx.y * ", k_.buffers.size()) : "", "];"));
    }
    Line(StrCat("typedef ", f_.narrow ? "u32" : "i64", " Index;"));
    if (!f_.exact) Line(StrCat("const bool fast = ", S(CudaSizes::kFast), " != 0;"));
    for (ValueId id = 0; id < static_cast<ValueId>(k_.insts.size()); ++id) {
      const Op op = inst(id).op;
      if (level(id) == Level::kKernel && !IsReduce(id) && op != Op::kStore) Scalar(id);
    }
  }

  // Row pointers r<b> from a row number in `rest`.
  void RowPointers(int first_dim, const char* from, const char* to) {
    for (int d = f_.rank - 1; d > first_dim; --d) {
      Line(StrCat("const Index n", d, " = divide(rest, ", S(at_.ExtentDiv(d)), "), d", d, " = rest - n", d,
                  " * (Index)", S(at_.Extent(d)), ";"));
      Line(StrCat("rest = n", d, ";"));
    }
    if (f_.rank > first_dim) Line(StrCat("const Index d", first_dim, " = rest;"));
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      std::string text = StrCat("auto ", to, b, " = ", from, b);
      for (int d = first_dim; d < f_.rank; ++d) {
        absl::StrAppend(&text, " + (i64)d", d, " * ", S(at_.Outer(static_cast<int>(b), d)));
      }
      Line(text + ";");
    }
  }

  // --- values

  // Memory at element k of the vector at index i, or the place of a uniform buffer.
  std::string Place(const Inst& in, const std::string& index) const {
    std::string p = StrCat("r", in.slot);
    if (buffer(in.slot).segmented) absl::StrAppend(&p, " + s * ", S(at_.Segment(in.slot)));
    if (index.empty()) return p;
    const Inner inner = buffer(in.slot).inner;
    if (in.op == Op::kLoadAt || inner == Inner::kStrided || inner == Inner::kTransposed) {
      return StrCat(p, " + (i64)(", index, ") * ", S(at_.InnerStride(in.slot)));
    }
    return StrCat(p, " + (", index, ")");
  }

  bool IsVector(int b) const { return buffer(b).inner == Inner::kContiguous; }
  bool IsTile(int b) const { return buffer(b).inner == Inner::kTransposed && k_.skeleton == Skeleton::kTransposed; }
  // What a vector's load or store is told about how much of it there is.
  std::string Extent() const { return f_.exact ? "" : ", n, fast"; }
  std::string Guard() const { return f_.exact ? "" : "k < n"; }

  std::string Right(ValueId id) const {
    const Inst& in = inst(id);
    switch (in.op) {
      case Op::kParam:
        if (kernel_ir::IsFloat(in.type)) {
          return StrCat("(", LaneType(in.type), ")__longlong_as_double(", S(at_.Param(in.slot)), ")");
        }
        return StrCat("(", LaneType(in.type), ")", S(at_.Param(in.slot)));
      case Op::kIota:
        return "(i64)i + k";
      case Op::kLoadAt: {
        const std::string value = StrCat("load(*(", Place(in, StrCat("v", in.args[0])), "))");
        return level(id) != Level::kElement || Guard().empty()
                   ? value
                   : StrCat(Guard(), " ? ", value, " : (", LaneType(in.type), ")0");
      }
      default:
        return Expression(k_, in);
    }
  }

  void Define(ValueId id, const std::string& right) {
    Line(StrCat("const ", LaneType(inst(id).type), " v", id, " = ", right, ";"));
  }

  // A value that is uniform here.
  void Scalar(ValueId id) {
    const Inst& in = inst(id);
    if (in.op == Op::kStore) return Line(StrCat("store(", Place(in, ""), ", v", in.args[0], ");"));
    Define(id, in.op == Op::kLoad ? StrCat("load(*(", Place(in, ""), "))") : Right(id));
  }

  // One element: inside the loop over lanes.
  void Element(ValueId id, const Body& body) {
    const Inst& in = inst(id);
    if (in.op == Op::kLoad) return Define(id, ElementLoad(in, body));
    if (in.op == Op::kStore) return ElementStore(in);
    if (in.op == Op::kScratchLoad) {
      return Define(id, f_.chunks > 0 ? StrCat("s", in.slot, body.copy, ".e[k]") : StrCat("v", scratch_.at(in.slot)));
    }
    if (in.op == Op::kScratchStore) {
      if (f_.chunks > 0) Line(StrCat("s", in.slot, body.copy, ".e[k] = v", in.args[0], ";"));
      return;
    }
    if (!IsReduce(id)) return Define(id, Right(id));
    const std::string acc = StrCat("acc", id, k_.skeleton == Skeleton::kColumn ? "[k]" : "");
    std::string value = StrCat("v", in.args[0]);
    if (!f_.exact) value = StrCat("(k < n ? ", value, " : ", ReductionIdentity(in), ")");
    Line(StrCat(acc, " = ", ReductionFunctor(in.op), "()(", acc, ", ", value, ");"));
  }

  std::string ElementLoad(const Inst& in, const Body& body) const {
    if (IsVector(in.slot))
      return StrCat("load(x", in.slot, Held(in.slot) || InCopies(in.slot) ? body.copy : "", ".e[k])");
    if (IsTile(in.slot)) return StrCat("load(t", in.slot, "[tr][tc + k])");
    const std::string value = StrCat("load(*(", Place(in, "i + k"), "))");
    return Guard().empty() ? value : StrCat(Guard(), " ? ", value, " : (", LaneType(in.type), ")0");
  }

  void ElementStore(const Inst& in) {
    if (IsVector(in.slot)) return Line(StrCat("y", in.slot, ".e[k] = v", in.args[0], ";"));
    const std::string to = buffer(in.slot).inner == Inner::kUniform ? Place(in, "") : Place(in, "i + k");
    Line(StrCat(f_.exact ? "" : "if (k < n) ", "store(", to, ", v", in.args[0], ");"));
  }

  // --- loops over elements

  bool Held(int b) const { return held_.contains(b); }
  bool InCopies(int b) const { return copies_.contains(b); }

  // Adds what scratch loads stand for where it is computed again.
  std::vector<ValueId> WithScratch(const std::vector<ValueId>& values) const {
    std::set<ValueId> need(values.begin(), values.end());
    if (f_.chunks > 0) return {need.begin(), need.end()};
    std::vector<ValueId> open;
    const auto follow = [&](ValueId id) {
      if (inst(id).op == Op::kScratchLoad) open.push_back(scratch_.at(inst(id).slot));
    };
    for (ValueId id : values) follow(id);
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (level(id) != Level::kElement || IsReduce(id) || !need.insert(id).second) continue;
      follow(id);
      for (int i = 0; i < Arity(inst(id).op); ++i) open.push_back(inst(id).args[static_cast<std::size_t>(i)]);
    }
    return {need.begin(), need.end()};
  }

  std::set<int> VectorReads(const std::vector<ValueId>& values) const {
    std::set<int> out;
    for (ValueId id : values) {
      if (inst(id).op == Op::kLoad && IsVector(inst(id).slot)) out.insert(inst(id).slot);
    }
    return out;
  }

  void LoadVector(int b, const std::string& name) {
    Line(StrCat("load_vec(", name, ", ", Place({Op::kLoad, {}, {}, b, 0}, "i"), Extent(), ");"));
  }
  std::string VectorType(int b) const { return StrCat("Vec<", MemoryType(buffer(b).dtype), ", ", f_.vector, ">"); }

  // Loads that are not done yet, the lanes, the stores. `i` and `n` are defined.
  void EmitBody(const Body& body) {
    for (int b : VectorReads(body.values)) {
      if (Held(b) || InCopies(b)) continue;
      Line(StrCat(VectorType(b), " x", b, ";"));
      LoadVector(b, StrCat("x", b));
    }
    std::vector<const Inst*> stores;
    for (ValueId id : body.values) {
      if (inst(id).op != Op::kStore || !IsVector(inst(id).slot)) continue;
      stores.push_back(&inst(id));
      Line(StrCat("Lanes<", LaneType(inst(id).type), ", ", f_.vector, "> y", inst(id).slot, ";"));
    }
    OpenUnrolled(Lanes());
    for (ValueId id : body.values) Element(id, body);
    Close();
    for (const Inst* in : stores) Line(StrCat("store_vec(", Place(*in, "i"), ", y", in->slot, Extent(), ");"));
  }

  void CountLanes(const std::string& limit) {
    if (f_.exact) return;
    Line(StrCat("const int n = (i64)(", limit, ") - (i64)i < ", f_.vector, " ? (int)((i64)(", limit,
                ") - (i64)i) : ", f_.vector, ";"));
  }

  void DeclareAccumulators(const Block& block, bool lanes) {
    for (ValueId id : block.code) {
      if (!IsReduce(id)) continue;
      const std::string type = LaneType(inst(id).type), identity = ReductionIdentity(inst(id));
      if (!lanes) {
        Line(StrCat(type, " acc", id, " = ", identity, ";"));
        continue;
      }
      Line(StrCat(type, " acc", id, "[", f_.vector, "];"));
      Line("#pragma unroll");
      Line(StrCat(Lanes(), " acc", id, "[k] = ", identity, ";"));
    }
  }

  // --- pointwise

  void Points() {
    const Block& block = k_.blocks.front();
    Body body{ElementsOf(block), "[u]"};
    if (f_.unroll == 1) body.copy = "";
    const std::string step = StrCat(f_.threads * f_.unroll);
    std::string total = S(CudaSizes::kUnits);
    if (f_.tensors > 1) {
      Line(StrCat("const i64 inner = a.s[", at_.Elements(0), " + blockIdx.y];"));
      total = StrCat("((inner + ", f_.vector - 1, ") / ", f_.vector, ")");
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
      CloseCopies();
      OpenCopies();
      PointScalars(block);
      EmitBody(body);
      CloseCopies();
      copies_.clear();
    } else {
      Line("const Index at = first;");
      PointPlace();
      PointScalars(block);
      EmitBody(body);
    }
    Close();
  }

  void OpenCopies() {
    OpenUnrolled(StrCat("for (int u = 0; u < ", f_.unroll, "; ++u)"));
    Line(StrCat("const Index at = first + (Index)u * ", f_.threads, ";"));
    Open("if (at < total)");
    PointPlace();
  }
  void CloseCopies() {
    Close();
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
    CountLanes(f_.tensors > 1 ? "inner" : S(CudaSizes::kInner));
  }

  void PointScalars(const Block& block) {
    for (ValueId id : block.code) {
      if (level(id) == Level::kRow && inst(id).op != Op::kStore) Scalar(id);
    }
  }

  std::vector<ValueId> ElementsOf(const Block& block) const {
    std::vector<ValueId> out;
    for (ValueId id : block.code) {
      if (IsElement(id) || (inst(id).op == Op::kStore && k_.skeleton != Skeleton::kRow)) out.push_back(id);
    }
    return WithScratch(out);
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
    for (const Block& block : k_.blocks) block.kind == BlockKind::kLoop ? RowLoop(block) : RowOnce(block);
    if (f_.row_threads > 32) Line("__syncthreads();");
    Close();
  }

  // What the first loop reads, or several loops read, stays in registers.
  void HoldChunks() {
    if (f_.chunks == 0) return;
    std::map<int, int> loops;
    bool first = true;
    for (const Block& block : k_.blocks) {
      if (block.kind != BlockKind::kLoop) continue;
      for (int b : VectorReads(ElementsOf(block))) loops[b] += first ? 2 : 1;
      first = false;
    }
    for (const auto& [b, count] : loops) {
      if (count < 2) continue;
      held_.insert(b);
      Line(StrCat(VectorType(b), " x", b, "[", f_.chunks, "];"));
    }
    for (const auto& [slot, value] : scratch_) {
      Line(StrCat("Lanes<", LaneType(inst(value).type), ", ", f_.vector, "> s", slot, "[", f_.chunks, "];"));
    }
    OpenChunk();
    for (int b : held_) LoadVector(b, StrCat("x", b, "[c]"));
    CloseChunk();
  }

  void OpenChunk() {
    if (f_.chunks > 0) {
      OpenUnrolled(StrCat("for (int c = 0; c < ", f_.chunks, "; ++c)"));
      Line(StrCat("const Index i = (Index)(c * ", f_.row_threads, " + lane) * ", f_.vector, ";"));
      Open("if (i < inner)");
    } else {
      Open(StrCat("for (Index i = (Index)lane * ", f_.vector, "; i < inner; i += ", f_.row_threads * f_.vector, ")"));
    }
    CountLanes("inner");
  }
  void CloseChunk() {
    Close();
    if (f_.chunks > 0) Close();
  }

  void RowScalars(const Block& block) {
    for (ValueId id : block.code) {
      if (level(id) == Level::kKernel && inst(id).op != Op::kStore) continue;
      if (level(id) > Level::kRow || IsReduce(id)) continue;
      if (inst(id).op == Op::kStore) Line("if (lane == 0)");
      Scalar(id);
    }
  }

  void RowOnce(const Block& block) { RowScalars(block); }

  void RowLoop(const Block& block) {
    RowScalars(block);
    const Body body{ElementsOf(block), f_.chunks > 0 ? "[c]" : ""};
    if (body.values.empty()) return;
    DeclareAccumulators(block, false);
    if (k_.segments) {
      Open(StrCat("for (i64 s = 0; s < ", S(CudaSizes::kSegments), "; ++s)"));
      for (ValueId id : block.code) {
        if (level(id) != Level::kSegment || IsReduce(id)) continue;
        if (inst(id).op == Op::kStore) Line("if (lane == 0)");
        Scalar(id);
      }
    }
    OpenChunk();
    EmitBody(body);
    CloseChunk();
    if (k_.segments) Close();
    for (ValueId id : block.code) {
      if (!IsReduce(id)) continue;
      const std::string functor = ReductionFunctor(inst(id).op);
      Define(id, f_.row_threads == 32
                     ? StrCat("reduce_warp(acc", id, ", ", functor, "())")
                     : StrCat("reduce_block<", f_.row_threads / 32, ">(acc", id, ", parts", id, ", ", functor, "())"));
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
      for (int b : VectorReads(body.values)) LoadVector(b, StrCat("x", b, "[u]"));
      CloseCopies();
      OpenRowCopies(warps, last);
    } else {
      Line("const i64 row = first;");
      LastRow("row", last);
    }
    for (ValueId id : block.code) {
      if (level(id) == Level::kRow && inst(id).op != Op::kStore) Scalar(id);
    }
    EmitBody(body);
    if (f_.unroll > 1) CloseCopies();
    copies_.clear();
    Close();
    Close();
  }

  void OpenRowCopies(int warps, int last) {
    OpenUnrolled(StrCat("for (int u = 0; u < ", f_.unroll, "; ++u)"));
    Line(StrCat("const i64 row = first + u * ", warps, ";"));
    Open("if (row < rows)");
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
    Define(id, in.op == Op::kIota ? "(i64)i" : Right(id));
  }

  // --- transposed

  void Transposed() {
    const int last = f_.rank - 1;
    Line(StrCat("const Index tile = divide((Index)blockIdx.x, ", S(CudaSizes::kVectorsDiv), ");"));
    Line(StrCat("const i64 left = (i64)((Index)blockIdx.x - tile * (Index)", S(CudaSizes::kVectors), ") * ", kTile,
                ";"));
    Line(StrCat("const i64 batch = (i64)tile / ", S(CudaSizes::kDown), ", top = ((i64)tile - batch * ",
                S(CudaSizes::kDown), ") * ", kTile, ";"));
    Batches("(Index)batch", last);
    Line(StrCat("const i64 rows = ", S(CudaSizes::kUnits), ", inner = ", S(CudaSizes::kInner), ";"));
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      if (IsTile(static_cast<int>(b))) TurnTile(static_cast<int>(b));
    }
    Line("__syncthreads();");
    const Block& block = k_.blocks.front();
    const int across = kTile / f_.vector;
    Open(StrCat("for (int j = threadIdx.x; j < ", kTile * across, "; j += ", f_.threads, ")"));
    Line(StrCat("const int tr = j / ", across, ", tc = (j % ", across, ") * ", f_.vector, ";"));
    Line("const i64 row = top + tr, i = left + tc;");
    Open("if (row < rows && i < inner)");
    LastRow("row", last);
    CountLanes("inner");
    PointScalars(block);
    EmitBody({ElementsOf(block), ""});
    Close();
    Close();
  }

  void TurnTile(int b) {
    const int down = kTile / f_.vector, pad = ElementSize(buffer(b).dtype) <= 2 ? 2 : 1;
    Line(StrCat("__shared__ ", MemoryType(buffer(b).dtype), " t", b, "[", kTile, "][", kTile + pad, "];"));
    Open(StrCat("for (int j = threadIdx.x; j < ", kTile * down, "; j += ", f_.threads, ")"));
    Line(StrCat("const int tc = j / ", down, ", tr = (j % ", down, ") * ", f_.vector, ";"));
    Open("if (left + tc < inner && top + tr < rows)");
    const std::string there = "rows - (top + tr)";
    Line(StrCat("const int n = ", there, " < ", f_.vector, " ? (int)(", there, ") : ", f_.vector, ";"));
    Line(StrCat(VectorType(b), " x;"));
    Line(StrCat("load_vec(x, q", b, " + (top + tr) + (left + tc) * ", S(at_.InnerStride(b)), ", n, ",
                f_.exact ? "true" : "fast", ");"));
    Line("#pragma unroll");
    Line(StrCat(Lanes(), " t", b, "[tr + k][tc] = x.e[k];"));
    Close();
    Close();
  }

  const Kernel& k_;
  const CudaForm& f_;
  const CudaSizes at_;
  std::string name_, out_;
  int depth_ = 0;
  std::vector<Level> levels_;
  std::map<int, ValueId> scratch_;  // value that a scratch row holds
  std::set<int> held_;              // buffers in registers for the whole row: x<b>[c]
  std::set<int> copies_;            // buffers loaded for all unrolled copies: x<b>[u]
};

}  // namespace

absl::StatusOr<std::string> PrintCuda(const Kernel& kernel, const CudaForm& form, const std::string& name) {
  if (absl::Status status = Verify(kernel); !status.ok()) return status;
  return Printer(kernel, form, name).Run();
}

}  // namespace framefuse::emit
