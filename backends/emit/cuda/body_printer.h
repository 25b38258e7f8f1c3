// BodyPrinter: the part of printing that all skeletons share: lines and scopes, the kernel's signature, values as
// statements, and the loop over the lanes of a vector with its loads before and its stores after it.
// Values uniform in a row are scalars; those of an element are printed inside the loop.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_BODY_PRINTER_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_BODY_PRINTER_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/emit/cuda/expressions.h"
#include "backends/emit/cuda/kernel_facts.h"

namespace framefuse::emit {

class BodyPrinter : protected KernelFacts {
 protected:
  BodyPrinter(const Kernel& kernel, const CudaForm& form, std::string name)
      : KernelFacts(kernel, form), name_(std::move(name)) {}

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
  std::string S(int slot) const { return absl::StrCat("a.s[", slot, "]"); }
  std::string Lanes() const { return absl::StrCat("for (int k = 0; k < ", f_.vector, "; ++k)"); }

  void Signature() {
    const std::string resident = f_.resident > 0 ? absl::StrCat(", ", f_.resident) : "";
    Line(absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", f_.threads, resident, ") ", name_,
                      "(const __grid_constant__ Args<", k_.buffers.size() * static_cast<std::size_t>(f_.tensors), ", ",
                      at_.count(), "> a) {"));
    depth_ = 1;
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      const std::string type = MemoryType(k_.buffers[b].dtype);
      const std::string pointer = k_.buffers[b].written ? type + "*" : "const " + type + "*";
      // Pointwise kernels may be given an input's memory for a result.
      const char* apart = k_.skeleton == Skeleton::kPointwise ? " " : " __restrict__ ";
      Line(absl::StrCat(pointer, apart, f_.rank == 0 ? "r" : "b", b, " = (", pointer, ")a.b[", b,
                        f_.tensors > 1 ? absl::StrCat(" + blockIdx.y * ", k_.buffers.size()) : "", "];"));
    }
    Line(absl::StrCat("typedef ", f_.narrow ? "u32" : "i64", " Index;"));
    if (!f_.exact) Line(absl::StrCat("const bool fast = ", S(CudaSizes::kFast), " != 0;"));
    for (ValueId id = 0; id < static_cast<ValueId>(k_.insts.size()); ++id) {
      const Op op = inst(id).op;
      if (level(id) == Level::kKernel && !IsReduce(id) && op != Op::kStore) Scalar(id);
    }
  }

  // Row pointers r<b> from a row number in `rest`.
  void RowPointers(int first_dim, const char* from, const char* to) {
    for (int d = f_.rank - 1; d > first_dim; --d) {
      Line(absl::StrCat("const Index n", d, " = divide(rest, ", S(at_.ExtentDiv(d)), "), d", d, " = rest - n", d,
                        " * (Index)", S(at_.Extent(d)), ";"));
      Line(absl::StrCat("rest = n", d, ";"));
    }
    if (f_.rank > first_dim) Line(absl::StrCat("const Index d", first_dim, " = rest;"));
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      std::string text = absl::StrCat("auto ", to, b, " = ", from, b);
      for (int d = first_dim; d < f_.rank; ++d) {
        absl::StrAppend(&text, " + (i64)d", d, " * ", S(at_.Outer(static_cast<int>(b), d)));
      }
      Line(text + ";");
    }
  }

  // --- values

  // Memory at element k of the vector at index i, or the place of a uniform buffer.
  std::string Place(const Inst& in, const std::string& index) const {
    std::string p = absl::StrCat("r", in.slot);
    if (buffer(in.slot).segmented) absl::StrAppend(&p, " + s * ", S(at_.Segment(in.slot)));
    if (index.empty()) return p;
    const Inner inner = buffer(in.slot).inner;
    if (in.op == Op::kLoadAt || inner == Inner::kStrided || inner == Inner::kTransposed) {
      return absl::StrCat(p, " + (i64)(", index, ") * ", S(at_.InnerStride(in.slot)));
    }
    return absl::StrCat(p, " + (", index, ")");
  }

  // Vectors are whole here: their loads and stores need not be told how much of them there is, nor lanes be guarded.
  bool Whole() const { return f_.exact || lanes_ != LanesAre::kGuarded; }
  std::string Access(const char* what) const { return absl::StrCat(what, Whole() ? "_vec(" : "_part("); }
  std::string Extent() const { return Whole() ? "" : ", n, fast"; }
  std::string Guard() const { return Whole() ? "" : "k < n"; }

  std::string Right(ValueId id) const {
    const Inst& in = inst(id);
    switch (in.op) {
      case Op::kParam:
        if (kernel_ir::IsFloat(in.type)) {
          return absl::StrCat("(", LaneType(in.type), ")__longlong_as_double(", S(at_.Param(in.slot)), ")");
        }
        return absl::StrCat("(", LaneType(in.type), ")", S(at_.Param(in.slot)));
      case Op::kIota:
        return in.type == kernel_ir::Type::kI32 ? "(i32)i + k" : "(i64)i + k";
      case Op::kRowIota:
        return absl::StrCat("(", LaneType(in.type), ")row");
      case Op::kLoadFrom:
        return GuardedLoad(
            id, absl::StrCat(Place(in, buffer(in.slot).inner == Inner::kUniform ? "" : "i + k"), " + v", in.args[0]));
      case Op::kInRange: {
        const std::string value = absl::StrCat("in_row(v", in.args[0], ", v", in.args[1], ")");
        return level(id) != Level::kElement || Guard().empty() ? value : absl::StrCat(Guard(), " ? ", value, " : 0");
      }
      case Op::kLoadAt:
        return GuardedLoad(id, Place(in, absl::StrCat("in_row(v", in.args[0], ", ", S(CudaSizes::kInner), ")")));
      default:
        return Function(in, ShortFunction(id));
    }
  }

  std::string GuardedLoad(ValueId id, const std::string& place) const {
    const std::string value = absl::StrCat("load(*(", place, "))");
    return level(id) != Level::kElement || Guard().empty()
               ? value
               : absl::StrCat(Guard(), " ? ", value, " : (", LaneType(inst(id).type), ")0");
  }

  std::string Function(const Inst& in, std::string_view name) const {
    if (name.empty()) return Expression(k_, in);
    std::string text = absl::StrCat(std::string(name), "(v", in.args[0]);
    if (kernel_ir::Arity(in.op) > 1) absl::StrAppend(&text, ", v", in.args[1]);
    return text + ")";
  }

  void Define(ValueId id, const std::string& right) {
    Line(absl::StrCat("const ", LaneType(inst(id).type), " v", id, " = ", right, ";"));
  }

  // A value that is uniform here.
  void Scalar(ValueId id) {
    const Inst& in = inst(id);
    if (in.op == Op::kStore) return Line(absl::StrCat("store(", Place(in, ""), ", v", in.args[0], ");"));
    Define(id, in.op == Op::kLoad ? absl::StrCat("load(*(", Place(in, ""), "))") : Right(id));
  }

  // One element: inside the loop over lanes.
  void Element(ValueId id, const Body& body) {
    const Inst& in = inst(id);
    if (in.op == Op::kLoad) return Define(id, ElementLoad(in, body));
    if (in.op == Op::kStore) return ElementStore(in);
    if (in.op == Op::kScratchLoad) {
      return Define(id, KeepsScratch() ? absl::StrCat("s", in.slot, body.copy, ".e[k]")
                                       : absl::StrCat("v", scratch_.at(in.slot)));
    }
    if (in.op == Op::kScratchStore) {
      if (KeepsScratch()) Line(absl::StrCat("s", in.slot, body.copy, ".e[k] = v", in.args[0], ";"));
      return;
    }
    if (!IsReduce(id)) return Define(id, Right(id));
    const std::string acc = absl::StrCat("acc", id, k_.skeleton == Skeleton::kColumn ? "[k]" : "");
    std::string value = absl::StrCat("v", in.args[0]);
    if (!Whole()) value = absl::StrCat("(k < n ? ", value, " : ", ReductionIdentity(in), ")");
    Line(absl::StrCat(acc, " = ", ReductionFunctor(in.op), "()(", acc, ", ", value, ");"));
  }

  std::string ElementLoad(const Inst& in, const Body& body) const {
    if (IsVector(in.slot) && lanes_ != LanesAre::kSingle)
      return absl::StrCat("load(x", in.slot, Held(in.slot) || InCopies(in.slot) ? body.copy : "", ".e[k])");
    if (IsPaired(in.slot)) return absl::StrCat("load(z", in.slot, ".e[k])");
    if (IsTile(in.slot)) return absl::StrCat("load(t", in.slot, "[tr][tc + k])");
    const std::string value = absl::StrCat("load(*(", Place(in, "i + k"), "))");
    return Guard().empty() ? value : absl::StrCat(Guard(), " ? ", value, " : (", LaneType(in.type), ")0");
  }

  void ElementStore(const Inst& in) {
    if (IsVector(in.slot) && lanes_ != LanesAre::kSingle)
      return Line(absl::StrCat("y", in.slot, ".e[k] = v", in.args[0], ";"));
    const std::string to = buffer(in.slot).inner == Inner::kUniform ? Place(in, "") : Place(in, "i + k");
    Line(absl::StrCat(Whole() ? "" : "if (k < n) ", "store(", to, ", v", in.args[0], ");"));
  }

  // --- loops over elements

  bool Held(int b) const { return held_.contains(b); }
  bool InCopies(int b) const { return copies_.contains(b); }

  // `once`: the kernel reads it a single time and writes little.
  void LoadVector(int b, const std::string& name, bool once = false) {
    const std::string load = once && Whole() ? "load_once(" : Access("load");
    Line(absl::StrCat(load, name, ", ", Place({Op::kLoad, {}, {}, b, 0}, "i"), Extent(), ");"));
  }
  std::string VectorType(int b) const {
    return absl::StrCat("Vec<", MemoryType(buffer(b).dtype), ", ", f_.vector, ">");
  }

  // Loads that are not done yet, the lanes, the stores. `i` and `n` are defined.
  void EmitBody(const Body& body) {
    for (int b : VectorReads(body.values)) {
      if (Held(b) || InCopies(b)) continue;
      Line(absl::StrCat(VectorType(b), " x", b, ";"));
      LoadVector(b, absl::StrCat("x", b));
    }
    std::vector<const Inst*> stores;
    for (ValueId id : body.values) {
      if (inst(id).op != Op::kStore || !IsVector(inst(id).slot)) continue;
      stores.push_back(&inst(id));
      Line(absl::StrCat("Lanes<", LaneType(inst(id).type), ", ", f_.vector, "> y", inst(id).slot, ";"));
    }
    OpenUnrolled(Lanes());
    for (ValueId id : body.values) Element(id, body);
    Close();
    for (const Inst* in : stores) Line(absl::StrCat(Access("store"), Place(*in, "i"), ", y", in->slot, Extent(), ");"));
  }

  // A row that no registers hold: loads of some vectors, then what is done with them.
  void WalkTogether(const Body& body) {
    const int step = f_.row_threads * f_.vector;
    const auto open = [&] {
      OpenUnrolled(absl::StrCat("for (int u = 0; u < ", f_.unroll, "; ++u)"));
      Line(absl::StrCat("const Index i = begin + (Index)u * ", step, ";"));
      Open("if (i < inner)");
      CountLanes("inner");
    };
    Open(absl::StrCat("for (Index begin = (Index)lane * ", f_.vector, "; begin < inner; begin += ", step * f_.unroll,
                      ")"));
    for (int b : VectorReads(body.values)) {
      Line(absl::StrCat(VectorType(b), " x", b, "[", f_.unroll, "];"));
      copies_.insert(b);
    }
    open();
    for (int b : VectorReads(body.values)) LoadVector(b, absl::StrCat("x", b, "[u]"));
    Close();
    Close();
    open();
    EmitBody(body);
    Close();
    Close();
    copies_.clear();
    Close();
  }

  // One point after the other: `i`, `n` and the values of the row are defined.
  void EmitSingles(const Body& body) {
    lanes_ = LanesAre::kSingle;
    Line("#pragma unroll 1");
    Open("for (int k = 0; k < n; ++k)");
    for (ValueId id : body.values) Element(id, body);
    Close();
    lanes_ = LanesAre::kGuarded;
  }

  void CountLanes(const std::string& limit) {
    if (f_.exact) return;
    Line(absl::StrCat("const int n = (i64)(", limit, ") - (i64)i < ", f_.vector, " ? (int)((i64)(", limit,
                      ") - (i64)i) : ", f_.vector, ";"));
  }

  void DeclareAccumulators(const Block& block, bool lanes) {
    for (ValueId id : block.code) {
      if (!IsReduce(id)) continue;
      const std::string type = LaneType(inst(id).type), identity = ReductionIdentity(inst(id));
      if (!lanes) {
        Line(absl::StrCat(type, " acc", id, " = ", identity, ";"));
        continue;
      }
      Line(absl::StrCat(type, " acc", id, "[", f_.vector, "];"));
      Line("#pragma unroll");
      Line(absl::StrCat(Lanes(), " acc", id, "[k] = ", identity, ";"));
    }
  }

  // What the lanes of a form that is not exact are in the text that is being printed.
  enum class LanesAre : std::uint8_t { kGuarded, kWhole, kSingle };

  std::string name_, out_;
  int depth_ = 0;
  LanesAre lanes_ = LanesAre::kGuarded;
  std::set<int> held_;    // buffers in registers for the whole row: x<b>[c]
  std::set<int> copies_;  // buffers loaded for all unrolled copies: x<b>[u]
};

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_BODY_PRINTER_H_
