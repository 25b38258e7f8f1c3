#include "backends/fusion/sink_cats.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/fusion/cat_form.h"
#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise.h"
#include "backends/fusion/pointwise_table.h"
#include "backends/graph/operators.h"
#include "backends/graph/uses.h"

namespace framefuse::fusion {
namespace {

using ir::Arg;
using ir::Dim;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

constexpr int kDeepest = 6;

class Sinker {
 public:
  explicit Sinker(ir::Graph* graph) : g_(*graph), uses_(ir::CountUses(*graph)) {}

  bool Run() {
    const std::vector<Node> old = std::move(g_.nodes);
    g_.nodes.clear();
    bool changed = false;
    for (const Node& n : old) {
      if (std::optional<CatForm> form = CatFormOf(g_, n)) {
        cats_.emplace(n.outputs[0], *std::move(form));
      } else if (const CatForm* form = SunkBelow(n)) {
        Sink(n, CatForm(*form));
        changed = true;
        continue;
      } else if (n.outputs.size() == 1 && FindPointwiseRow(n.op) != nullptr) {
        maybe_pointwise_.emplace(n.outputs[0], &n);
      }
      NoteParts(n);
      nodes_.push_back(n);
    }
    g_.nodes = std::move(nodes_);
    return changed;
  }

 private:
  // Parts that the program itself takes: a rotation's halves are read by its kernel twice, and once from memory.
  void NoteParts(const Node& n) {
    const ir::OpName name = ir::NameOf(n.op);
    const bool slice = name == ir::OpName::kSliceTensor,
               split = name == ir::OpName::kSplitTensor || name == ir::OpName::kSplitWithSizes;
    if ((!slice && !split) || n.args[0].kind != Arg::Kind::kValue) return;
    for (std::size_t a = 1; a < n.args.size(); ++a) {
      if (n.args[a].kind == Arg::Kind::kDim || n.args[a].kind == Arg::Kind::kDimList) return;
    }
    const ir::Value& of = g_.value(n.args[0].value);
    const auto rank = static_cast<std::int64_t>(of.sizes.size());
    const std::int64_t named = n.args[slice ? 1 : 2].constant.toInt(), dim = named < 0 ? named + rank : named;
    if (slice && n.args[4].constant.toInt() != 1) return;
    std::int64_t begin = 0;
    if (slice && IsNumber(n.args[2])) begin = n.args[2].constant.toInt();
    if (!of.sizes[static_cast<std::size_t>(dim)].is_constant()) return;
    if (begin < 0) begin += of.sizes[static_cast<std::size_t>(dim)].constant();
    for (ValueId v : n.outputs) {
      if (v == kNoValue) return;
      const Dim& length = g_.value(v).sizes[static_cast<std::size_t>(dim)];
      if (!length.is_constant()) return;
      parts_.try_emplace({n.args[0].value, begin, begin + length.constant(), static_cast<std::size_t>(dim)}, v);
      begin += length.constant();
    }
  }

  static bool IsNumber(const Arg& arg) { return arg.kind == Arg::Kind::kConstant && arg.constant.isInt(); }

  // The concatenation that `n` alone reads and that can go below it.
  const CatForm* SunkBelow(const Node& n) const {
    if (n.outputs.size() != 1 || n.outputs[0] == kNoValue) return nullptr;
    const CatForm* found = nullptr;
    ir::ForEachUse(n, [&](ValueId v) {
      const auto cat = cats_.find(v);
      const bool sinks = cat != cats_.end() && IsReadOnceBy(n, v) && g_.value(v).sizes == g_.value(n.outputs[0]).sizes;
      if (sinks && found == nullptr) found = &cat->second;
    });
    if (found == nullptr || !IsPointwise(g_, n)) return nullptr;
    return OffsetsIn(g_.value(n.outputs[0]), *found).empty() ? nullptr : found;
  }

  bool IsReadOnceBy(const Node& n, ValueId v) const {
    int here = 0;
    ir::ForEachUse(n, [&](ValueId u) { here += u == v; });
    return v < static_cast<ValueId>(uses_.size()) && here == uses_[static_cast<std::size_t>(v)];
  }

  void Sink(const Node& n, CatForm form) {
    sunk_ = &n;
    std::vector<ValueId> pieces;
    for (std::size_t i = 0; i < form.pieces.size(); ++i) pieces.push_back(OnPart(n, form, i, 0));
    form.pieces = pieces;
    NodeWriter w(&g_, &nodes_, n);
    w.Into(n.outputs[0])
        .Call(ir::OpName::kCat, {Arg::OfValues(std::move(pieces)), Arg::Constant(static_cast<std::int64_t>(form.dim))},
              ir::Value(g_.value(n.outputs[0])));
    cats_.emplace(n.outputs[0], std::move(form));
  }

  // A pointwise node on part i; `form.dim` counts from the first dimension of its result.
  ValueId OnPart(const Node& n, const CatForm& form, std::size_t i, int depth) {
    Node part = n;
    const std::size_t rank = g_.value(n.outputs[0]).sizes.size();
    for (Arg& arg : part.args) {
      if (arg.kind == Arg::Kind::kValue) arg.value = Part(arg.value, rank, form, i, depth + 1);
    }
    ir::Value like = g_.value(n.outputs[0]);
    like.sizes[form.dim] = Dim(form.bounds[i + 1] - form.bounds[i]);
    like.storage = -1;
    part.outputs = {g_.AddValue(like)};
    nodes_.push_back(part);
    return part.outputs[0];
  }

  // Part i of an operand of a node of rank `rank`.
  ValueId Part(ValueId v, std::size_t rank, const CatForm& form, std::size_t i, int depth) {
    const ir::Value value = g_.value(v);
    const std::size_t missing = rank - value.sizes.size();
    if (NumberConstant(g_, v) || form.dim < missing) return v;
    const std::size_t dim = form.dim - missing;
    if (value.sizes[dim] == Dim(1)) return v;
    if (const auto cat = cats_.find(v);
        cat != cats_.end() && cat->second.dim == dim && cat->second.bounds == form.bounds) {
      return cat->second.pieces[i];
    }
    const auto [known, added] = parts_.try_emplace({v, form.bounds[i], form.bounds[i + 1], dim}, kNoValue);
    if (!added) return known->second;
    ValueId& made = known->second;  // of a std::map: stays where it is
    const auto by = maybe_pointwise_.find(v);
    const bool once = v < static_cast<ValueId>(uses_.size()) && uses_[static_cast<std::size_t>(v)] == 1;
    if (by != maybe_pointwise_.end() && once && depth < kDeepest && IsPointwise(g_, *by->second)) {
      CatForm own = form;
      own.dim = dim;
      return made = OnPart(*by->second, own, i, depth);
    }
    return made = Slice(v, dim, form.bounds[i], form.bounds[i + 1]);
  }

  ValueId Slice(ValueId v, std::size_t dim, std::int64_t begin, std::int64_t end) {
    ir::Value like = g_.value(v);
    like.sizes[dim] = Dim(end - begin);
    const Dim skipped = g_.exprs.Make(ir::ExprKind::kMul, like.strides[dim], Dim(begin));
    like.offset = g_.exprs.Make(ir::ExprKind::kAdd, like.offset, skipped);
    const auto number = [](std::int64_t n) { return Arg::Constant(n); };
    return NodeWriter(&g_, &nodes_, *sunk_)
        .Call(ir::OpName::kSliceTensor,
              {Arg::OfValue(v), number(static_cast<std::int64_t>(dim)), number(begin), number(end), number(1)}, like);
  }

  struct PartOf {
    ValueId value;
    std::int64_t begin, end;
    std::size_t dim;
    auto operator<=>(const PartOf&) const = default;
  };

  ir::Graph& g_;
  std::vector<int> uses_;  // of the values that were there before
  std::vector<Node> nodes_;
  const Node* sunk_ = nullptr;
  std::map<ValueId, CatForm> cats_;
  std::map<ValueId, const Node*> maybe_pointwise_;  // nodes of the graph as it was
  std::map<PartOf, ValueId> parts_;
};

}  // namespace

absl::StatusOr<bool> SinkCats(ir::Graph& graph) {
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                               [&](const Node& n) { return CatFormOf(graph, n).has_value(); });
  return any && Sinker(&graph).Run();
}

}  // namespace framefuse::fusion
