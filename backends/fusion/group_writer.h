// GroupWriter: a group of nodes, and the kernel of it that is being written: which values it reads and writes, at which
// stage each is known, and nodes as instructions on demand. The walk over the iteration space is lower.cpp's.
#ifndef FRAMEFUSE_BACKENDS_FUSION_GROUP_WRITER_H_
#define FRAMEFUSE_BACKENDS_FUSION_GROUP_WRITER_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "backends/fusion/gather.h"
#include "backends/fusion/lower.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/scan.h"
#include "backends/graph/operators.h"
#include "common/check.h"

namespace framefuse::fusion {

class GroupWriter {
 protected:
  using Dim = ir::Dim;
  using Graph = ir::Graph;
  using Node = ir::Node;
  using NodeIndex = ir::NodeIndex;
  using BlockKind = kernel_ir::BlockKind;
  using Builder = kernel_ir::Builder;
  using Inner = kernel_ir::Inner;
  using Op = kernel_ir::Op;
  using Skeleton = kernel_ir::Skeleton;
  using Type = kernel_ir::Type;
  using GraphValue = ir::ValueId;
  using KernelValue = kernel_ir::ValueId;

  GroupWriter(Graph& graph, const Group& group, const std::vector<bool>& needed, const SplitRules& splits)
      : g_(graph), group_(group), needed_(needed), splits_(splits) {}

  const Node& node(NodeIndex n) const { return g_.nodes[static_cast<std::size_t>(n)]; }
  const ir::Value& value(GraphValue v) const { return g_.value(v); }
  kernel_ir::DType Storage(GraphValue v) const { return *StorageOf(value(v).dtype); }
  bool IsReduce(NodeIndex n) const {
    ReductionForm form;
    return group_.has_reduction() && IsReduction(g_, node(n), &form);
  }

  ReductionForm FormOf(NodeIndex n) const {
    ReductionForm form;
    FF_CHECK(IsReduction(g_, node(n), &form)) << "not a reduction";
    return form;
  }
  bool IsIndex(NodeIndex n) const { return IsReduce(n) && FormOf(n).index; }
  // Loops after which the node's result is known, from where it starts.
  int LoopsOf(NodeIndex n) const { return IsReduce(n) ? FormOf(n).loops() : 0; }

  // --- what the group is made of

  void Analyse() {
    std::set<GraphValue> seen;
    for (NodeIndex n : group_.nodes) made_by_[node(n).outputs[0]] = n;
    for (NodeIndex n : group_.nodes) {
      int stage = 0;
      ir::ForEachUse(node(n), [&](GraphValue v) {
        const auto made = made_by_.find(v);
        if (made == made_by_.end()) {
          if (seen.insert(v).second && !NumberConstant(g_, v)) out_.inputs.push_back(v);
        } else {
          stage = std::max(stage, stage_[v] + LoopsOf(made->second));
        }
      });
      const GraphValue v = node(n).outputs[0];
      stage_[v] = stage;
      stages_ = std::max(stages_, stage + LoopsOf(n));
      if (needed_[static_cast<std::size_t>(v)]) out_.outputs.push_back(v);
    }
  }

  // Uniform in the reduced dimensions.
  bool IsRowLevel(GraphValue v) const {
    if (!group_.has_reduction()) return false;
    const auto made = made_by_.find(v);
    if (made != made_by_.end()) return IsReduce(made->second) || value(v).sizes != group_.shape;
    if (NumberConstant(g_, v)) return true;
    const std::size_t o = OperandIndex(v);
    return std::all_of(it_.reduced.begin(), it_.reduced.end(), [&](const Axis& a) { return a.strides[o] == Dim(0); });
  }

  std::size_t OperandIndex(GraphValue v) const {
    std::size_t o = 0;
    while (it_.operands[o].value != v || (it_.operands[o].written != made_by_.contains(v))) ++o;
    return o;
  }

  // --- buffers and parameters of the kernel that is being built

  void Start(Skeleton skeleton) {
    LoweredKernel& k = out_.kernels.emplace_back();
    k.kernel.skeleton = skeleton;
    k_ = &k;
    builder_.emplace(&k.kernel);
    known_ = KnownInKernel();
  }

  static Inner InnerOf(const Dim& stride) {
    if (stride == Dim(0)) return Inner::kUniform;
    return stride == Dim(1) ? Inner::kContiguous : Inner::kStrided;
  }

  // Kernel buffer of an operand, with strides along the axes of this kernel.
  int BufferOf(GraphValue v) {
    if (const auto it = known_.buffers.find(v); it != known_.buffers.end()) return it->second;
    const std::size_t o = OperandIndex(v);
    KernelBuffer b;
    b.value = v;
    for (const Axis* a : outer_) b.outer.push_back(a->strides[o]);
    b.segment = segment_ != nullptr ? segment_->strides[o] : Dim(0);
    b.inner = inner_ != nullptr ? inner_->strides[o] : Dim(1);
    Inner inner = InnerOf(b.inner);
    const bool across = k_->kernel.skeleton == Skeleton::kTransposed && b.outer.back() == Dim(1);
    if (inner == Inner::kStrided && across && HasRoomToTurn(Storage(v))) inner = Inner::kTransposed;
    return known_.buffers[v] = AddBuffer(std::move(b), Storage(v), it_.operands[o].written, inner);
  }

  // What finds no room is read as it lies.
  bool HasRoomToTurn(kernel_ir::DType type) {
    constexpr std::int64_t kElements = 256 * 18;
    const std::int64_t with_it = known_.turned_bytes + kElements * kernel_ir::ElementSize(type);
    if (splits_.turned_bytes > 0 && with_it > splits_.turned_bytes) return false;
    known_.turned_bytes = with_it;
    return true;
  }

  int AddBuffer(KernelBuffer b, kernel_ir::DType dtype, bool written, Inner inner) {
    const bool segmented = b.segment != Dim(0);
    k_->buffers.push_back(std::move(b));
    return builder_->AddBuffer(dtype, written, inner, segmented);
  }

  KernelValue NumberOf(const ir::Arg& arg) {
    if (arg.kind != ir::Arg::Kind::kDim) return kernel_ir::kNoValue;
    const Dim d = arg.dims[0];
    const bool is_float = g_.exprs.TypeOf(d) == ir::NumberType::kFloat;
    const Type type = is_float ? Type::kF64 : Type::kI64;
    const auto [it, added] = known_.params.try_emplace(d.expr, 0);
    if (added) {
      it->second = builder_->AddParam(type);
      k_->params.push_back(d);
    }
    return builder_->Emit(Op::kParam, type, {}, it->second);
  }

  // --- values

  KernelValue Emit(GraphValue v) {
    if (const auto it = known_.in_block.find(v); it != known_.in_block.end()) return it->second;
    if (const auto it = known_.in_row.find(v); it != known_.in_row.end()) return it->second;
    KernelValue result;
    const auto made = made_by_.find(v);
    if (const auto found = known_.found.find(v); found != known_.found.end()) {
      result = builder_->Cast(Type::kI64, found->second);
    } else if (made == made_by_.end()) {
      result = builder_->Load(BufferOf(v));
    } else if (const auto s = known_.scratch.find(v); s != known_.scratch.end()) {
      result = builder_->Emit(Op::kScratchLoad, ComputeType(Storage(v)), {}, s->second);
    } else {
      result = EmitNode(node(made->second));
      if (keep_.contains(v) && block_.in_loop) {
        known_.scratch[v] = builder_->AddScratch();
        builder_->Emit(Op::kScratchStore, builder_->TypeOf(result), {result}, known_.scratch[v]);
      }
    }
    (IsRowLevel(v) && k_->kernel.skeleton == Skeleton::kRow && !block_.in_loop ? known_.in_row : known_.in_block)[v] =
        result;
    return result;
  }

  // As an instruction of the group reads the value. A cast to a half rounds, because the program asks for it.
  // Arithmetic of halves does not: it stays in f32 until it is stored or becomes another type.
  KernelValue Read(GraphValue v) { return CastRounds(v) ? Rounded(v, Emit(v)) : Emit(v); }

  bool CastRounds(GraphValue v) const {
    const auto made = made_by_.find(v);
    if (made == made_by_.end() || !ir::Is(node(made->second).op, ir::OpName::k_ToCopy)) return false;
    const c10::ScalarType to = value(v).dtype;
    return c10::isReducedFloatingType(to) && value(node(made->second).args[0].value).dtype != to;
  }

  KernelValue Rounded(GraphValue v, KernelValue k) {
    if (builder_->IsRounded(Storage(v), k)) return k;
    return builder_->Emit(Op::kWrap, Type::kF32, {k}, -1, static_cast<std::uint64_t>(Storage(v)));
  }

  KernelValue NumberOf(const Dim& d) {
    return d.is_constant() ? builder_->ConstInt(Type::kI64, d.constant()) : NumberOf(ir::Arg::OfDim(d));
  }

  // A point of the row that the index names.
  KernelValue EmitGather(const GatherForm& form) {
    const ir::Value& table = value(form.table);
    const IndexCheck check{form.index, table.sizes[0], 0, form.wraps};
    const auto same = [&](const IndexCheck& c) {
      return c.index == check.index && c.extent == check.extent && c.wraps == check.wraps;
    };
    if (std::none_of(out_.checks.begin(), out_.checks.end(), same)) out_.checks.push_back(check);
    KernelValue row = builder_->Cast(Type::kI64, Emit(form.index));
    const KernelValue extent = NumberOf(table.sizes[0]);
    if (form.wraps) {
      const KernelValue negative = builder_->Compare(Op::kLt, row, builder_->ConstInt(Type::kI64, 0));
      row = builder_->Select(negative, builder_->Binary(Op::kAdd, row, extent), row);
    }
    row = builder_->Binary(Op::kInRange, row, extent);
    return builder_->LoadFrom(BufferOf(form.table), builder_->Binary(Op::kMul, row, NumberOf(table.strides[0])));
  }

  KernelValue EmitNode(const Node& n) {
    if (const std::optional<GatherForm> form = GatherOf(g_, n)) return EmitGather(*form);
    if (const std::optional<ScanForm> form = ScanOf(g_, n)) {
      const KernelValue of = builder_->Cast(form->type, Read(n.args[0].value));
      return builder_->Cast(ComputeType(Storage(n.outputs[0])), builder_->Emit(Op::kScanSum, form->type, {of}));
    }
    return EmitNode(n, [this](GraphValue v) { return Read(v); });
  }

  template <typename F>
  KernelValue EmitNode(const Node& n, F emit) {
    std::vector<KernelValue> tensors, numbers;
    for (const ir::Arg& arg : n.args) {
      if (arg.kind != ir::Arg::Kind::kValue) {
        tensors.push_back(kernel_ir::kNoValue);
      } else {
        tensors.push_back(NumberConstant(g_, arg.value) ? EmitNumber(*builder_, g_, arg.value) : emit(arg.value));
      }
      numbers.push_back(NumberOf(arg));
    }
    return PointwiseEmitter(g_, n, &*builder_, std::move(tensors), std::move(numbers)).Emit();
  }

  bool IsPick(NodeIndex n) const {
    ReductionForm form;
    return IsReduction(g_, node(n), &form) && form.picks;
  }

  // What the target names of its row. The index was checked before.
  KernelValue EmitPick(NodeIndex n) {
    const Node& pick = node(n);
    const std::int64_t ignored = pick.args[4].constant.toInt();
    out_.checks.push_back({pick.args[1].value, value(pick.args[0].value).sizes[1], ignored});
    const KernelValue target = Emit(pick.args[1].value);
    const KernelValue valid = builder_->Compare(Op::kNe, target, builder_->ConstInt(Type::kI64, ignored));
    std::map<GraphValue, KernelValue> made;
    const KernelValue index = builder_->Select(valid, target, builder_->ConstInt(Type::kI64, 0));
    const KernelValue element = ReadAt(pick.args[0].value, index, &made);
    return builder_->Select(valid, builder_->Unary(Op::kNeg, element), builder_->Const(builder_->TypeOf(element), 0));
  }

  // A value of the full shape at one index of the row.
  KernelValue EmitAt(GraphValue v, KernelValue index, std::map<GraphValue, KernelValue>* made) {
    if (IsRowLevel(v)) return Emit(v);
    if (const auto it = made->find(v); it != made->end()) return it->second;
    const auto by = made_by_.find(v);
    return (*made)[v] = by == made_by_.end()
                            ? builder_->LoadAt(BufferOf(v), index)
                            : EmitNode(node(by->second), [&](GraphValue arg) { return ReadAt(arg, index, made); });
  }

  KernelValue ReadAt(GraphValue v, KernelValue index, std::map<GraphValue, KernelValue>* made) {
    const KernelValue k = EmitAt(v, index, made);
    return CastRounds(v) ? Rounded(v, k) : k;
  }

  KernelValue EmitReduce(NodeIndex n) {
    const GraphValue in = node(n).args[0].value;
    const bool index = IsIndex(n);
    const Type type = ComputeType(Storage(index ? in : node(n).outputs[0]));
    const KernelValue of = index ? Compared(in) : builder_->Cast(type, Read(in));
    const auto [made, added] = block_.reduced.try_emplace({FormOf(n).op, type, of}, 0);
    if (added) made->second = builder_->Emit(FormOf(n).op, type, {of});
    return made->second;
  }

  // A half as eager compares it.
  KernelValue Compared(GraphValue v) {
    const KernelValue k = Emit(v);
    return c10::isReducedFloatingType(value(v).dtype) ? Rounded(v, k) : k;
  }

  // Where the first extreme is among the reduced points of this loop, which an earlier one has found. A NaN is one.
  KernelValue EmitIndex(NodeIndex n, KernelValue extreme) {
    const KernelValue x = Compared(node(n).args[0].value);
    const auto [made, added] = block_.reduced.try_emplace({FormOf(n).op, Type::kPred, x}, 0);
    if (!added) return made->second;
    KernelValue hit = builder_->Compare(Op::kEq, x, extreme);
    if (kernel_ir::IsFloat(builder_->TypeOf(x)))
      hit = builder_->Emit(Op::kOr, Type::kPred, {hit, builder_->Compare(Op::kNe, x, x)});
    const KernelValue at = builder_->Select(hit, Place(), builder_->ConstInt(IndexType(), NoIndex()));
    return made->second = builder_->Unary(Op::kReduceMin, at);
  }

  // The number of the reduced point.
  KernelValue Place() {
    if (block_.place == kernel_ir::kNoValue) {
      const bool column = k_->kernel.skeleton == Skeleton::kColumn;
      block_.place = builder_->Emit(column ? Op::kRowIota : Op::kIota, IndexType(), {});
    }
    return block_.place;
  }

  Type IndexType() const {
    std::int64_t most = 1;
    for (const Axis& a : it_.reduced) {
      if (!a.extent.is_constant() || a.extent.constant() > INT32_MAX / most) return Type::kI64;
      most *= a.extent.constant();
    }
    return most < INT32_MAX ? Type::kI32 : Type::kI64;
  }
  std::int64_t NoIndex() const { return IndexType() == Type::kI32 ? INT32_MAX : INT64_MAX; }

  void Begin(BlockKind kind) {
    builder_->Begin(kind);
    known_.in_block.clear();
    block_ = KnownInBlock();
    block_.in_loop = kind == BlockKind::kLoop;
  }

  void Store(GraphValue v) { builder_->Store(BufferOf(v), Emit(v)); }

  // What the kernel that is being written has by now.
  struct KnownInKernel {
    std::map<GraphValue, int> buffers, scratch;
    std::map<ir::ExprId, int> params;
    std::map<GraphValue, KernelValue> in_block, in_row;
    std::map<GraphValue, KernelValue> found;  // indices, in the type that they are found in
    std::int64_t turned_bytes = 0;
  };
  struct KnownInBlock {
    bool in_loop = false;
    std::map<std::tuple<Op, Type, KernelValue>, KernelValue> reduced;  // indices as of kPred
    KernelValue place = kernel_ir::kNoValue;
  };

  Graph& g_;
  const Group& group_;
  const std::vector<bool>& needed_;
  const SplitRules& splits_;
  LoweredGroup out_;
  Iteration it_;
  Axis one_;
  std::map<GraphValue, NodeIndex> made_by_;
  std::map<GraphValue, int> stage_;
  int stages_ = 0;

  LoweredKernel* k_ = nullptr;
  std::optional<Builder> builder_;
  std::vector<const Axis*> outer_;
  const Axis* segment_ = nullptr;
  const Axis* inner_ = nullptr;
  KnownInKernel known_;
  KnownInBlock block_;
  std::set<GraphValue> keep_;
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_GROUP_WRITER_H_
