// See print_cuda.h. Scratch values are computed again instead of kept: a row's inputs are in L1 or L2 by then.
// Owner: backends/emit.
#include "backends/emit/cuda/print_cuda.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace framefuse::emit {
namespace {

using kernel_ir::Arity;
using kernel_ir::Block;
using kernel_ir::BlockKind;
using kernel_ir::ClassOf;
using kernel_ir::DType;
using kernel_ir::Inner;
using kernel_ir::Inst;
using kernel_ir::Kernel;
using kernel_ir::Op;
using kernel_ir::OpClass;
using kernel_ir::Skeleton;
using kernel_ir::Type;
using kernel_ir::ValueId;

constexpr std::string_view kMemory[] = {"bool", "u8",  "signed char", "short", "i32",
                                        "i64",  "f16", "bf16",        "float", "double"};
constexpr std::string_view kLane[] = {"bool", "i32", "i64", "float", "double"};

std::string LaneType(Type t) { return std::string(kLane[static_cast<int>(t)]); }

class Printer {
 public:
  Printer(const Kernel& kernel, std::string name) : k_(kernel), name_(std::move(name)) {}

  std::string Run() {
    Signature();
    if (k_.skeleton == Skeleton::kColumn) {
      Column();
    } else if (k_.skeleton == Skeleton::kRow) {
      Rows();
    } else {
      Points();
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  int rank() const { return k_.outer_rank; }

  void Line(const std::string& text) { out_ += std::string(static_cast<std::size_t>(depth_) * 2, ' ') + text + "\n"; }
  void Open(const std::string& text) {
    Line(text + " {");
    ++depth_;
  }
  void Close() {
    --depth_;
    Line("}");
  }

  void Signature() {
    out_ += absl::StrCat("// ", k_.name, "\nextern \"C\" __global__ void __launch_bounds__(", kCudaThreads, ") ", name_,
                         "(");
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      const std::string type(kMemory[static_cast<int>(k_.buffers[b].dtype)]);
      absl::StrAppend(&out_, k_.buffers[b].written ? "" : "const ", type, "* __restrict__ b", b, ", ");
    }
    out_ += "i64 inner, i64 segments";
    for (int d = 0; d < rank(); ++d) absl::StrAppend(&out_, ", i64 n", d);
    for (std::size_t p = 0; p < k_.params.size(); ++p) {
      absl::StrAppend(&out_, ", ", kernel_ir::IsFloat(k_.params[p]) ? "double" : "i64", " p", p);
    }
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      for (int d = 0; d < rank(); ++d) absl::StrAppend(&out_, ", i64 b", b, "_s", d);
      absl::StrAppend(&out_, ", i64 b", b, "_seg, i64 b", b, "_in");
    }
    out_ += ") {\n";
    depth_ = 1;
  }

  // Pointers of row `row`: r0, r1 …
  void RowPointers() {
    for (int d = rank() - 1; d >= 0; --d) {
      Line(d > 0 ? absl::StrCat("i64 d", d, " = rest % n", d, "; rest /= n", d, ";") : "i64 d0 = rest;");
    }
    for (std::size_t b = 0; b < k_.buffers.size(); ++b) {
      std::string offset = "0";
      for (int d = 0; d < rank(); ++d) absl::StrAppend(&offset, " + d", d, " * b", b, "_s", d);
      Line(absl::StrCat("auto r", b, " = b", b, " + (", offset, ");"));
    }
  }

  std::string Rowcount() const {
    std::string n = "(i64)1";
    for (int d = 0; d < rank(); ++d) absl::StrAppend(&n, " * n", d);
    return n;
  }

  void Points() {
    Line(absl::StrCat("const i64 total = inner * (", Rowcount(), ");"));
    Open("for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x)");
    Line("i64 rest = at / inner, i = at - rest * inner, s = 0;");
    RowPointers();
    for (const Block& block : k_.blocks) {
      for (ValueId id : block.code) Statement(id);
    }
    Close();
  }

  void Rows() {
    Line(absl::StrCat("const i64 rows = ", Rowcount(), ";"));
    Open("for (i64 row = blockIdx.x; row < rows; row += gridDim.x)");
    Line("i64 rest = row, i = 0, s = 0;");
    RowPointers();
    for (const Block& block : k_.blocks) block.kind == BlockKind::kLoop ? RowLoop(block) : RowOnce(block);
    Line("__syncthreads();");
    Close();
  }

  void RowOnce(const Block& block) {
    for (ValueId id : block.code) {
      if (k_[id].op == Op::kStore) {
        Open("if (threadIdx.x == 0)");
        Statement(id);
        Close();
      } else {
        Statement(id);
      }
    }
  }

  void RowLoop(const Block& block) {
    for (ValueId id : block.code) {
      if (ClassOf(k_[id].op) == OpClass::kReduce)
        Line(absl::StrCat(LaneType(k_[id].type), " acc", id, " = ", Identity(k_[id]), ";"));
    }
    // Values that later blocks use and that are uniform are made outside of the loop.
    const std::vector<kernel_ir::Level> levels = ComputeLevels(k_);
    std::set<ValueId> hoisted;
    for (ValueId id : block.code) {
      const auto level = levels[static_cast<std::size_t>(id)];
      if (level >= kernel_ir::Level::kSegment || ClassOf(k_[id].op) == OpClass::kReduce || k_[id].op == Op::kStore)
        continue;
      hoisted.insert(id);
      Statement(id);
    }
    if (k_.segments) Open("for (s = 0; s < segments; ++s)");
    Open("for (i = threadIdx.x; i < inner; i += blockDim.x)");
    again_.clear();
    for (ValueId id : block.code) {
      if (!hoisted.contains(id)) Statement(id);
    }
    Close();
    if (k_.segments) Close();
    Line("i = 0; s = 0;");
    for (ValueId id : block.code) {
      if (ClassOf(k_[id].op) != OpClass::kReduce) continue;
      Line(absl::StrCat("const ", LaneType(k_[id].type), " v", id, " = reduce_block(acc", id, ", (",
                        LaneType(k_[id].type), ")", Identity(k_[id]), ", ", Functor(k_[id].op), "());"));
    }
  }

  void Column() {
    Line("const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;");
    Line("i64 s = 0, rest = 0, i = (i64)blockIdx.x * 32 + lane;");
    Line("const bool inside = i < inner;");
    const Block& body = k_.blocks.front();
    for (ValueId id : body.code) {
      if (ClassOf(k_[id].op) == OpClass::kReduce)
        Line(absl::StrCat(LaneType(k_[id].type), " acc", id, " = ", Identity(k_[id]), ";"));
    }
    Open("for (i64 row = warp; inside && row < n0; row += warps)");
    Line("rest = row;");
    RowPointers();
    for (ValueId id : body.code) Statement(id);
    Close();
    for (ValueId id : body.code) {
      if (ClassOf(k_[id].op) != OpClass::kReduce) continue;
      Line(absl::StrCat("const ", LaneType(k_[id].type), " v", id, " = reduce_warps(acc", id, ", ", Functor(k_[id].op),
                        "());"));
    }
    Open("if (inside && warp == 0)");
    Line("rest = 0;");
    RowPointers();
    for (std::size_t b = 1; b < k_.blocks.size(); ++b) {
      for (ValueId id : k_.blocks[b].code) Statement(id);
    }
    Close();
  }

  static std::string Functor(Op op) {
    switch (op) {
      case Op::kReduceSum:
        return "Sum";
      case Op::kReduceProd:
        return "Prod";
      case Op::kReduceMin:
        return "Min";
      default:
        return "Max";
    }
  }

  static std::string Identity(const Inst& inst) {
    const bool max = inst.op == Op::kReduceMax || inst.op == Op::kReduceMaxRaw;
    if (inst.op == Op::kReduceSum) return "0";
    if (inst.op == Op::kReduceProd) return "1";
    switch (inst.type) {
      case Type::kF32:
        return max ? "__int_as_float(0xff800000)" : "__int_as_float(0x7f800000)";
      case Type::kF64:
        return max ? "__longlong_as_double(0xfff0000000000000ll)" : "__longlong_as_double(0x7ff0000000000000ll)";
      case Type::kI64:
        return max ? "(-9223372036854775807ll - 1)" : "9223372036854775807ll";
      default:
        return max ? "(-2147483647 - 1)" : "2147483647";
    }
  }

  std::string Address(const Inst& inst, const std::string& index) const {
    const int b = inst.slot;
    const kernel_ir::Buffer& buffer = k_.buffers[static_cast<std::size_t>(b)];
    std::string at = absl::StrCat("r", b);
    if (buffer.segmented) absl::StrAppend(&at, " + s * b", b, "_seg");
    if (inst.op == Op::kLoadAt || buffer.inner == Inner::kStrided || buffer.inner == Inner::kTransposed) {
      return absl::StrCat(at, " + (", index, ") * b", b, "_in");
    }
    return buffer.inner == Inner::kUniform ? at : absl::StrCat(at, " + ", index);
  }

  std::string Constant(const Inst& inst) const {
    char text[64];
    if (!kernel_ir::IsFloat(inst.type)) {
      const auto value = static_cast<long long>(inst.imm);
      if (inst.type == Type::kPred) return value != 0 ? "true" : "false";
      return inst.type == Type::kI64 ? absl::StrCat("(i64)", value, "ll") : absl::StrCat("(i32)", value);
    }
    const double value = std::bit_cast<double>(inst.imm);
    if (inst.type == Type::kF32) {
      const auto narrow = static_cast<float>(value);
      if (!std::isfinite(narrow)) {
        std::snprintf(text, sizeof text, "__int_as_float(0x%08x)", std::bit_cast<unsigned>(narrow));
      } else {
        std::snprintf(text, sizeof text, "%af", static_cast<double>(narrow));
      }
    } else if (!std::isfinite(value)) {
      std::snprintf(text, sizeof text, "__longlong_as_double(0x%016llxll)", static_cast<unsigned long long>(inst.imm));
    } else {
      std::snprintf(text, sizeof text, "%a", value);
    }
    return text;
  }

  std::string Expression(const Inst& inst) const {
    const auto a = [&](std::size_t i) { return absl::StrCat("v", inst.args[i]); };
    const auto infix = [&](const char* op) { return absl::StrCat(a(0), " ", op, " ", a(1)); };
    const auto call = [&](const std::string& f) {
      std::string text = f + "(" + a(0);
      for (int i = 1; i < Arity(inst.op); ++i) text += ", " + a(static_cast<std::size_t>(i));
      return text + ")";
    };
    switch (inst.op) {
      case Op::kConst:
        return Constant(inst);
      case Op::kParam:
        return absl::StrCat("(", LaneType(inst.type), ")p", inst.slot);
      case Op::kIota:
        return "i";
      case Op::kLoad:
        return "load(" + Address(inst, "i") + ")";
      case Op::kLoadAt:
        return "load(" + Address(inst, a(0)) + ")";
      case Op::kAdd:
        return infix("+");
      case Op::kSub:
        return infix("-");
      case Op::kMul:
        return infix("*");
      case Op::kDiv:
        return infix("/");
      case Op::kLt:
        return infix("<");
      case Op::kLe:
        return infix("<=");
      case Op::kEq:
        return infix("==");
      case Op::kNe:
        return infix("!=");
      case Op::kAnd:
        return infix("&");
      case Op::kOr:
        return infix("|");
      case Op::kXor:
        return infix("^");
      case Op::kNot:
        return (inst.type == Type::kPred ? "!" : "~") + a(0);
      case Op::kShl:
        return absl::StrCat(a(0), " << ", inst.imm);
      case Op::kShr:
        return absl::StrCat(a(0), " >> ", inst.imm);
      case Op::kNeg:
        return "-" + a(0);
      case Op::kAbs:
        return kernel_ir::IsFloat(inst.type) ? call("fabs") : absl::StrCat(a(0), " < 0 ? -", a(0), " : ", a(0));
      case Op::kMin:
        return call("min_nan");
      case Op::kMax:
        return call("max_nan");
      case Op::kMinRaw:
        return call("min_raw");
      case Op::kMaxRaw:
        return call("max_raw");
      case Op::kRound:
        return call("rint");
      case Op::kReciprocal:
        return "1 / " + a(0);
      case Op::kSelect:
        return absl::StrCat(a(0), " ? ", a(1), " : ", a(2));
      case Op::kCast:
        return inst.type == Type::kPred ? a(0) + " != 0" : "(" + LaneType(inst.type) + ")" + a(0);
      case Op::kWrap:
        return Wrap(inst);
      case Op::kBitcast:
        return Bitcast(inst);
      default:
        return call(std::string(Name(inst.op)));  // fma, floor, sqrt, exp, tanh …: overloads by type
    }
  }

  std::string Wrap(const Inst& inst) const {
    const std::string v = absl::StrCat("v", inst.args[0]);
    switch (static_cast<DType>(inst.imm)) {
      case DType::kU8:
        return "(i32)(u8)" + v;
      case DType::kI8:
        return "(i32)(signed char)" + v;
      case DType::kI16:
        return "(i32)(short)" + v;
      case DType::kBF16:
        return "round_bf16(" + v + ")";
      case DType::kF16:
        return "round_f16(" + v + ")";
      default:
        return v;
    }
  }

  std::string Bitcast(const Inst& inst) const {
    const Type from = k_[inst.args[0]].type;
    const std::string v = absl::StrCat("v", inst.args[0]);
    if (from == inst.type) return v;
    switch (inst.type) {
      case Type::kF32:
        return "__int_as_float(" + v + ")";
      case Type::kF64:
        return "__longlong_as_double(" + v + ")";
      case Type::kI32:
        return "__float_as_int(" + v + ")";
      default:
        return "__double_as_longlong(" + v + ")";
    }
  }

  void Statement(ValueId id) {
    const Inst& inst = k_[id];
    if (inst.op == Op::kStore) {
      Line(absl::StrCat("store(", Address(inst, "i"), ", v", inst.args[0], ");"));
    } else if (inst.op == Op::kScratchStore) {
      scratch_[inst.slot] = inst.args[0];
    } else if (ClassOf(inst.op) == OpClass::kReduce) {
      Line(absl::StrCat("acc", id, " = ", Functor(inst.op), "()(acc", id, ", v", inst.args[0], ");"));
    } else if (inst.op == Op::kScratchLoad) {
      Recompute(scratch_[inst.slot]);
      Line(absl::StrCat("const ", LaneType(inst.type), " v", id, " = v", scratch_[inst.slot], ";"));
    } else {
      Line(absl::StrCat("const ", LaneType(inst.type), " v", id, " = ", Expression(inst), ";"));
    }
  }

  // Prints again what a scratch value is made of, down to loads and uniform values.
  void Recompute(ValueId id) {
    const std::vector<kernel_ir::Level> levels = ComputeLevels(k_);
    std::set<ValueId> need;
    std::vector<ValueId> open = {id};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (levels[static_cast<std::size_t>(v)] < kernel_ir::Level::kSegment || !need.insert(v).second) continue;
      if (ClassOf(k_[v].op) == OpClass::kReduce) {
        need.erase(v);
        continue;
      }
      if (k_[v].op == Op::kScratchLoad) {
        open.push_back(scratch_[k_[v].slot]);
        continue;
      }
      for (int a = 0; a < Arity(k_[v].op); ++a) open.push_back(k_[v].args[static_cast<std::size_t>(a)]);
    }
    for (ValueId v : need) {
      if (!again_.insert(v).second) continue;
      const Inst& inst = k_[v];
      const std::string right = inst.op == Op::kScratchLoad ? absl::StrCat("v", scratch_[inst.slot]) : Expression(inst);
      Line(absl::StrCat("const ", LaneType(inst.type), " v", v, " = ", right, ";"));
    }
  }

  const Kernel& k_;
  std::string name_, out_;
  int depth_ = 0;
  std::map<int, ValueId> scratch_;
  std::set<ValueId> again_;  // printed again in this loop
};

}  // namespace

absl::StatusOr<std::string> PrintCuda(const Kernel& kernel, const std::string& name) {
  if (absl::Status status = Verify(kernel); !status.ok()) return status;
  return Printer(kernel, name).Run();
}

}  // namespace framefuse::emit
