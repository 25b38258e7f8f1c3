// Writes to tensors become new values: views of what is written are made again from them.

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/meta_run.h"
#include "backends/graph/operators.h"
#include "backends/passes/aliases.h"
#include "backends/passes/functional_forms.h"
#include "backends/passes/memory_order.h"
#include "backends/passes/offsets_of_roots.h"
#include "backends/passes/pass.h"
#include "backends/passes/scatter_offsets.h"
#include "backends/passes/write_histories.h"
#include "backends/passes/written_memory.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::Arg;
using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::NodeIndex;
using ir::ValueId;

// What makes a view's base of it alone.
constexpr ir::ByOp<ir::OpName> kInverses{
    {ir::OpName::kT, ir::OpName::kT},
    {ir::OpName::k_Conj, ir::OpName::kConjPhysical},
    {ir::OpName::k_NegView, ir::OpName::kNeg},
    {ir::OpName::kViewAsReal, ir::OpName::kViewAsComplex},
    {ir::OpName::kViewAsComplex, ir::OpName::kViewAsReal},
};

// Walks the nodes once. Each recorded value has a current functional value; a write gives its root (through the
// chain of views between) a new one, and views of that root are made again when they are next read.
class Functionalizer {
 public:
  explicit Functionalizer(const ir::Graph& recorded)
      : old_(recorded), g_(recorded), aliases_(recorded), definitions_(recorded.Definitions()), histories_(recorded) {
    g_.nodes.clear();
    current_.assign(old_.values.size(), kNoValue);
    seen_version_.assign(old_.values.size(), 0);
    version_.assign(old_.values.size(), 0);
    for (const ir::Input& in : old_.inputs) current_[At(in.value)] = in.value;
    for (const ir::ConstantTensor& c : old_.constants) current_[At(c.value)] = c.value;
  }

  absl::Status Run() {
    FF_RETURN_IF_ERROR(CheckWrittenMemory(old_, aliases_));
    for (const Node& n : old_.nodes) {
      phase_ = n.phase;
      origin_ = n.origin;
      sequence_ = n.sequence;
      FF_RETURN_IF_ERROR(n.op->mutates() ? Writing(n) : Reading(n));
    }
    phase_ = g_.nodes.empty() ? ir::Phase::kForward : g_.nodes.back().phase;
    return Finish();
  }

  ir::Graph Take() { return std::move(g_); }

 private:
  ValueId NewValueLike(ValueId v) {
    ir::Value metadata = g_.value(v);
    metadata.storage = -1;
    return g_.AddValue(std::move(metadata));
  }

  void Emit(Node n) {
    n.phase = phase_;
    n.origin = origin_;
    n.sequence = sequence_;
    if (writes_without_history_) n.history = ir::History::kCut;
    histories_.Note(n);
    g_.nodes.push_back(std::move(n));
  }

  ValueId EmitOne(ir::OpName op, std::vector<Arg> args, ValueId like) {
    return EmitOne(ir::RequireOp(op), std::move(args), like);
  }
  ValueId EmitOne(ir::OpId op, std::vector<Arg> args, ValueId like) {
    Node n;
    n.op = op;
    n.args = std::move(args);
    n.outputs = {NewValueLike(like)};
    ValueId result = n.outputs[0];
    EmitMade(std::move(n));
    return result;
  }

  // Of a node whose results are described like other values: its operator lays them out in its own way.
  void EmitMade(Node n) {
    bool plain = !n.op->is_view();
    const auto see = [&](ValueId v) { plain = plain && (v == kNoValue || ir::IsContiguous(g_.exprs, g_.value(v))); };
    ir::ForEachUse(n, see);
    for (ValueId v : n.outputs) see(v);
    if (!plain) SetStrides(n);
    Emit(std::move(n));
  }

  // Not of what the recorded operator returned: it is laid out as it was then.
  void SetStrides(const Node& n) {
    const absl::StatusOr<std::optional<ir::MetaResults>> found = ir::MetaRun(g_).ResultsOf(n);
    if (!found.ok() || !found->has_value() || !(*found)->has_strides) return;
    const std::vector<at::Tensor>& tensors = (*found)->tensors;
    for (std::size_t r = 0; r < tensors.size() && r < n.outputs.size(); ++r) {
      if (n.outputs[r] >= static_cast<ValueId>(old_.values.size()) && tensors[r].defined())
        TakeStrides(g_.exprs, g_.value(n.outputs[r]), tensors[r].strides());
    }
  }

  NodeIndex ViewNodeOf(ValueId v) const {
    NodeIndex i = definitions_[At(v)];
    return i != kNoNode && ViewedArgument(*old_.nodes[At(i)].op) >= 0 && aliases_.RootOf(v) != v ? i : kNoNode;
  }

  ValueId ParentOf(NodeIndex view) const {
    const Node& n = old_.nodes[At(view)];
    return n.args[At(ViewedArgument(*n.op))].value;
  }

  ValueId Read(ValueId v) {
    if (v == kNoValue) return kNoValue;
    std::int32_t version = version_[At(aliases_.RootOf(v))];
    if (seen_version_[At(v)] == version) return current_[At(v)];
    // A view of something that was written since.
    NodeIndex view = ViewNodeOf(v);
    Node n = old_.nodes[At(view)];
    // By its phase it would be a detach() of a backward formula, which no derivative minds.
    if (ir::Is(n.op, ir::OpName::kDetach) && n.phase == ir::Phase::kForward) n.detached_uses |= 1;
    ReadArguments(n);
    for (ValueId& out : n.outputs) {
      if (out == kNoValue) continue;
      ValueId renewed = NewValueLike(out);
      current_[At(out)] = renewed;
      seen_version_[At(out)] = version;
      out = renewed;
    }
    Emit(std::move(n));
    // A detached tensor that got a history by writes of its own keeps it when the whole is written.
    if (const auto it = own_history_.find(v); it != own_history_.end()) {
      current_[At(v)] = it->second = WithHistoryOf(it->second, current_[At(v)]);
    }
    return current_[At(v)];
  }

  void ReadArguments(Node& n) {
    for (Arg& a : n.args) {
      if (a.kind == Arg::Kind::kValue) a.value = Read(a.value);
      for (ValueId& v : a.values) v = Read(v);
    }
  }

  absl::Status Reading(const Node& recorded) {
    Node n = recorded;
    ReadArguments(n);
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      current_[At(v)] = v;
      seen_version_[At(v)] = version_[At(aliases_.RootOf(v))];
    }
    Emit(std::move(n));
    return absl::OkStatus();
  }

  // `value` as autograd sees it after a write that it does not see: with the history that was there before, if any.
  ValueId WithHistoryOf(ValueId before, ValueId value) {
    const bool carries = histories_.Carry(before);
    if (!carries && !histories_.Carry(value)) return value;
    if (!carries || !WriteHistories::Writes(g_.nodes.back(), before, value)) {
      value = EmitOne(ir::OpName::kCopy, {Arg::OfValue(before), Arg::OfValue(value), Arg::Constant(false)}, before);
    }
    g_.nodes.back().history = carries ? ir::History::kCutWrite : ir::History::kCut;
    histories_.Note(g_.nodes.back());
    return value;
  }

  // The whole that a detached tensor is of, if nothing but its history tells them apart.
  std::optional<ValueId> AttachedWholeOf(ValueId target) const {
    bool detached = false;
    for (NodeIndex view = ViewNodeOf(target); view != kNoNode; view = ViewNodeOf(target)) {
      const ir::OpName name = ir::NameOf(old_.nodes[At(view)].op);
      if (name != ir::OpName::kDetach && name != ir::OpName::kAlias) return std::nullopt;
      detached = true;
      target = ParentOf(view);
    }
    return detached ? std::optional(target) : std::nullopt;
  }

  absl::Status Writing(const Node& recorded) {
    FunctionalForm form = FunctionalFormOf(*recorded.op);
    if (form.op == nullptr)
      return absl::UnimplementedError(absl::StrCat(recorded.op->name(), " has no functional form"));
    if (ir::Is(recorded.op, ir::OpName::kBernoulli_Float)) {
      const ir::Value& target = g_.value(recorded.args[0].value);
      if (!ir::IsContiguous(g_.exprs, target) && RandomFollowsMemory(target.device))
        return WritingInMemoryOrder(recorded, form);
    }
    if (ir::Is(recorded.op, ir::OpName::kNormal_) && DrawsInMemoryOrder(g_.exprs, g_.value(recorded.args[0].value)))
      return absl::UnimplementedError("normal_ on a tensor with gaps");
    if (form.is_out && !MakesWhatIsThere(g_, recorded, form.op)) {
      return absl::UnimplementedError(absl::StrCat(recorded.op->name(), " into a tensor of another dtype or layout"));
    }
    Node n = recorded;
    if (form.is_out) n.args.pop_back();
    ReadArguments(n);
    // Its results are constants, and what is written keeps the history that it had.
    const bool without_history = recorded.history != ir::History::kKept && recorded.phase == ir::Phase::kForward;
    if (without_history) n.history = ir::History::kCut;
    if (without_history && form.written.size() == 1 && form.written[0] == 0 && n.args[0].kind == Arg::Kind::kValue) {
      if (const auto whole = AttachedWholeOf(recorded.args[0].value)) n.args[0].value = current_[At(*whole)];
    }
    n.op = form.op;
    n.outputs.clear();
    n.list_sizes.clear();
    TakeOwnReturns(recorded, &n);
    std::vector<std::pair<ValueId, ValueId>> writes;  // recorded target, new value
    bool any_list = false;
    std::vector<std::int32_t> list_sizes(form.own_returns, -1);
    for (std::int32_t w : form.written) {
      const Arg& target = recorded.args[At(w)];
      bool list = recorded.op->arguments()[At(w)].type == ir::ArgType::kTensorList;
      any_list = any_list || list;
      list_sizes.push_back(list ? static_cast<std::int32_t>(target.values.size()) : -1);
      if (target.kind == Arg::Kind::kNone) n.outputs.push_back(kNoValue);
      ir::ForEachValue(target, [&](ValueId v) {
        n.outputs.push_back(NewValueLike(v));
        writes.emplace_back(v, n.outputs.back());
      });
    }
    if (any_list) n.list_sizes = std::move(list_sizes);
    KeepDtype(recorded, n, &writes);
    absl::Status status;
    for (const auto& [target, value] : writes) status.Update(Write(target, value, without_history));
    return status;
  }

  // aten.bernoulli.p fills a row-major tensor; the in-place form draws in the order of the target's memory. The same
  // numbers come from drawing on the target with its dimensions in memory order.
  absl::Status WritingInMemoryOrder(const Node& recorded, const FunctionalForm& form) {
    const ValueId target = recorded.args[0].value;
    const ir::Value meta = g_.value(target);
    std::vector<std::int64_t> order(meta.rank());
    std::iota(order.begin(), order.end(), 0);
    for (const ir::Dim& d : meta.strides) {
      if (!d.is_constant()) return absl::UnimplementedError("bernoulli_ on a tensor with symbolic strides");
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return meta.strides[At(a)].constant() > meta.strides[At(b)].constant();
    });
    std::vector<std::int64_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) back[At(order[i])] = static_cast<std::int64_t>(i);
    ir::Value permuted = meta;
    permuted.storage = -1;
    for (std::size_t i = 0; i < order.size(); ++i) {
      permuted.sizes[i] = meta.sizes[At(order[i])];
      permuted.strides[i] = meta.strides[At(order[i])];
    }
    if (!ir::IsContiguous(g_.exprs, permuted)) {
      return absl::UnimplementedError("bernoulli_ on a tensor with gaps in its memory");
    }
    Node view;
    view.op = ir::RequireOp(ir::OpName::kPermute);
    view.args = {Arg::OfValue(Read(target)), Arg::Constant(order)};
    view.outputs = {g_.AddValue(permuted)};
    Node draw;
    draw.op = form.op;
    draw.args = recorded.args;
    draw.args[0] = Arg::OfValue(view.outputs[0]);
    draw.outputs = {g_.AddValue(permuted)};
    const ValueId drawn = draw.outputs[0];
    Emit(std::move(view));
    Emit(std::move(draw));
    return Write(target, EmitOne(ir::OpName::kPermute, {Arg::OfValue(drawn), Arg::Constant(back)}, target));
  }

  // Returns that are new tensors keep their recorded values.
  void TakeOwnReturns(const Node& recorded, Node* n) {
    for (std::size_t r = 0; r < recorded.op->returns().size(); ++r) {
      if (recorded.op->returns()[r].written_argument >= 0 || r >= recorded.outputs.size()) continue;
      ValueId v = recorded.outputs[r];
      n->outputs.push_back(v);
      if (v != kNoValue) current_[At(v)] = v;
    }
  }

  // Writing in place converts to the target's dtype; the functional form may compute in another.
  void KeepDtype(const Node& recorded, Node& n, std::vector<std::pair<ValueId, ValueId>>* writes) {
    std::vector<std::pair<ValueId*, c10::ScalarType>> converted;  // and the target's dtype
    for (std::size_t i = 0; i < writes->size(); ++i) {
      const bool list = !n.list_sizes.empty();
      const c10::ScalarType computed = list                  ? ComputedTypeInList(g_, n, i)
                                       : writes->size() == 1 ? ComputedType(g_, recorded, n)
                                                             : c10::ScalarType::Undefined;
      ir::Value& result = g_.value((*writes)[i].second);
      if (computed == c10::ScalarType::Undefined || computed == result.dtype) continue;
      converted.emplace_back(&(*writes)[i].second, result.dtype);
      result.dtype = computed;
    }
    EmitMade(std::move(n));
    for (const auto& [result, wanted] : converted) {
      const ValueId value = EmitOne(ir::OpName::k_ToCopy,
                                    {Arg::OfValue(*result), Arg::Constant(static_cast<std::int64_t>(wanted)),
                                     Arg::None(), Arg::None(), Arg::None(), Arg::Constant(false), Arg::None()},
                                    *result);
      g_.value(value).dtype = wanted;
      *result = value;
    }
  }

  // `value` becomes what `target` (recorded) holds, and its root and all views of that see it.
  absl::Status Write(ValueId target, ValueId value, bool without_history = false) {
    ValueId root = aliases_.RootOf(target);
    const ValueId before = current_[At(root)];
    std::vector<std::pair<ValueId, ValueId>> detached;  // tensors on the way, with what they hold
    while (target != root) {
      const Node& view = old_.nodes[At(ViewNodeOf(target))];
      const bool forward = phase_ == ir::Phase::kForward;
      if (ir::Is(view.op, ir::OpName::kDetach) && forward && !without_history) detached.emplace_back(target, value);
      writes_without_history_ = without_history || !detached.empty();
      absl::StatusOr<ValueId> whole = IntoParent(view, target, value);
      writes_without_history_ = false;
      FF_RETURN_IF_ERROR(whole.status());
      value = *whole;
      target = ParentOf(ViewNodeOf(target));
    }
    // Later views of the root are made with its recorded strides.
    if (old_.value(root).layout == c10::Layout::Strided && !ir::IsDense(g_.exprs, old_.value(root))) {
      return absl::UnimplementedError("a write to a tensor with gaps or overlap");
    }
    if (!ReachSameOffsets(g_.value(value), old_.value(root))) {
      value = EmitOne(ir::OpName::kCopy, {Arg::OfValue(before), Arg::OfValue(value), Arg::Constant(false)}, root);
    }
    if (without_history || !detached.empty()) value = WithHistoryOf(before, value);
    current_[At(root)] = value;
    seen_version_[At(root)] = ++version_[At(root)];
    for (const auto& [tensor, own] : detached) {
      if (!histories_.Carry(own)) continue;
      current_[At(tensor)] = own_history_[tensor] = own;
      seen_version_[At(tensor)] = version_[At(root)];
    }
    return absl::OkStatus();
  }

  // What puts `target`, one of the pieces that `view` makes, into the whole; the first two arguments are still open.
  std::optional<Node> IntoPieces(const Node& view, ValueId target) {
    Node n;
    n.args.resize(2);
    const auto it = std::find(view.outputs.begin(), view.outputs.end(), target);
    const auto piece = static_cast<std::int64_t>(it - view.outputs.begin());
    const Arg& dim = view.args.back();
    if (ir::Is(view.op, ir::OpName::kUnbindInt)) {
      n.op = ir::RequireOp(ir::OpName::kSelectScatter);
      n.args.insert(n.args.end(), {dim, Arg::Constant(piece)});
      return n;
    }
    const bool splits = ir::Is(view.op, ir::OpName::kSplitTensor) || ir::Is(view.op, ir::OpName::kSplitWithSizes);
    if (!splits || dim.kind != Arg::Kind::kConstant) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(g_.value(target).rank());
    const std::size_t d = At(static_cast<std::int32_t>((dim.constant.toInt() + rank) % rank));
    ir::Dim begin(0);
    for (auto v = view.outputs.begin(); v != it; ++v) {
      if (*v == kNoValue) return std::nullopt;
      begin = g_.exprs.Make(ir::ExprKind::kAdd, begin, g_.value(*v).sizes[d]);
    }
    const ir::Dim end = g_.exprs.Make(ir::ExprKind::kAdd, begin, g_.value(target).sizes[d]);
    n.op = ir::RequireOp(ir::OpName::kSliceScatter);
    n.args.insert(n.args.end(), {dim, Arg::OfDim(begin), Arg::OfDim(end), Arg::Constant(std::int64_t{1})});
    return n;
  }

  // The parent's value once `value` stands where the view `target` was.
  absl::StatusOr<ValueId> IntoParent(const Node& view, ValueId target, ValueId value) {
    const ir::OpName name = ir::NameOf(view.op);
    ValueId old_parent = view.args[At(ViewedArgument(*view.op))].value;
    ValueId parent = Read(old_parent);
    Arg from = Arg::OfValue(value);
    if (name == ir::OpName::kAlias || name == ir::OpName::kDetach) return value;
    if (kInverses[name] != ir::OpName::kUnknown) return EmitOne(kInverses[name], {from}, old_parent);
    if (name == ir::OpName::kTransposeInt)
      return EmitOne(ir::OpName::kTransposeInt, {from, view.args[1], view.args[2]}, old_parent);
    if (name == ir::OpName::kSelectInt) {
      return EmitOne(ir::OpName::kSelectScatter, {Arg::OfValue(parent), from, view.args[1], view.args[2]}, old_parent);
    }
    if (name == ir::OpName::kSliceTensor) {
      return EmitOne(ir::OpName::kSliceScatter,
                     {Arg::OfValue(parent), from, view.args[1], view.args[2], view.args[3], view.args[4]}, old_parent);
    }
    if (!view.list_sizes.empty()) {
      if (std::optional<Node> scatter = IntoPieces(view, target)) {
        scatter->args[0] = Arg::OfValue(parent);
        scatter->args[1] = from;
        return EmitOne(scatter->op, std::move(scatter->args), old_parent);
      }
    }
    if (g_.value(target).dtype != g_.value(old_parent).dtype) return ReadAs(view, target, value);
    bool reshape = name == ir::OpName::kView || name == ir::OpName::k_UnsafeView || name == ir::OpName::kUnsqueeze ||
                   name == ir::OpName::kSqueeze || name == ir::OpName::kSqueezeDim || name == ir::OpName::kSqueezeDims;
    bool plain = ir::IsContiguous(g_.exprs, g_.value(target)) && ir::IsContiguous(g_.exprs, g_.value(old_parent));
    if (reshape && plain) {
      if (!ir::IsContiguous(g_.exprs, g_.value(value))) {
        from = Arg::OfValue(EmitOne(ir::OpName::kClone,
                                    {from, Arg::Constant(static_cast<std::int64_t>(c10::MemoryFormat::Contiguous))},
                                    target));
      }
      return EmitOne(ir::OpName::kView, {from, Arg::OfDims(g_.value(old_parent).sizes)}, old_parent);
    }
    if (name == ir::OpName::kExpand) return absl::UnimplementedError("a write to an expanded tensor");
    const ir::Value& v = g_.value(target);
    if (MayOverlap(g_.exprs, v)) return absl::UnimplementedError("a write to a view that has places of memory twice");
    const ir::Dim begin = g_.exprs.Make(ir::ExprKind::kNeg, g_.value(old_parent).offset);
    const ir::Dim offset = g_.exprs.Make(ir::ExprKind::kAdd, v.offset, begin);
    return EmitOne(ScatterOffsets(),
                   {Arg::OfValue(parent), from, Arg::OfDims(v.sizes), Arg::OfDims(v.strides), Arg::OfDim(offset)},
                   old_parent);
  }

  // The bits of `value`, which stands where the view `target` was, as its parent's type.
  absl::StatusOr<ValueId> ReadAs(const Node& view, ValueId target, ValueId value) {
    const ValueId old_parent = view.args[At(ViewedArgument(*view.op))].value;
    const ir::Value &part = g_.value(target), &parent = g_.value(old_parent);
    if (!ir::Is(view.op, ir::OpName::kViewDtype) || c10::elementSize(part.dtype) != c10::elementSize(parent.dtype)) {
      return absl::UnimplementedError("a write to a view of another type");
    }
    return EmitOne(ir::OpName::kViewDtype,
                   {Arg::OfValue(value), Arg::Constant(static_cast<std::int64_t>(parent.dtype))}, old_parent);
  }

  absl::Status Finish() {
    for (ir::Output& o : g_.outputs) {
      // A size is known from where it is computed on, whatever is written there later.
      if (o.role != ir::OutputRole::kUnbacked) o.value = Read(o.value);
    }
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
      ir::Input& in = g_.inputs[i];
      in.mutated = version_[At(in.value)] > 0;
      if (!in.mutated) {
        in.mutated_output = -1;
      } else if (in.mutated_output < 0) {
        in.mutated_output = static_cast<std::int32_t>(g_.outputs.size());
        ir::Output o;
        o.role = ir::OutputRole::kMutatedInput;
        o.input = static_cast<std::int32_t>(i);
        o.value = Read(in.value);
        g_.outputs.push_back(o);
      }
    }
    // An input that is not written after all has no new value.
    for (const ir::Output& o : g_.outputs) {
      if (o.role == ir::OutputRole::kMutatedInput && !g_.inputs[At(o.input)].mutated) {
        return absl::InvalidArgumentError("an output is the new value of an input that nothing writes");
      }
    }
    g_.functional = true;
    return absl::OkStatus();
  }

  const ir::Graph& old_;
  ir::Graph g_;
  Aliases aliases_;
  std::vector<NodeIndex> definitions_;
  std::vector<ValueId> current_;            // by recorded value
  std::vector<std::int32_t> seen_version_;  // of its root, when `current_` was made
  std::vector<std::int32_t> version_;       // by root
  ir::Phase phase_ = ir::Phase::kForward;
  ir::OriginId origin_ = -1;
  std::int64_t sequence_ = -1;
  bool writes_without_history_ = false;  // what is emitted puts into a whole what eager's autograd does not see
  WriteHistories histories_;
  absl::flat_hash_map<ValueId, ValueId> own_history_;  // of detached tensors that have one: what they held last
};

}  // namespace

absl::StatusOr<bool> Functionalize(ir::Graph& g) {
  if (g.functional) return false;
  if (std::none_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op->mutates(); })) {
    g.functional = true;
    return true;
  }
  ir::Graph recorded = g;
  FF_RETURN_IF_ERROR(TakeOffsetsFromRoots(recorded));
  Functionalizer f(recorded);
  FF_RETURN_IF_ERROR(f.Run());
  g = f.Take();
  return true;
}

}  // namespace framefuse
