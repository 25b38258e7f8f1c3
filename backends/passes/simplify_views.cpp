// Views of views become one view where that is the same.
#include <numeric>
#include <optional>
#include <utility>

#include "backends/graph/operators.h"
#include "backends/passes/aliases.h"
#include "backends/passes/pass.h"
#include "backends/passes/rewrite.h"
#include "common/index.h"

namespace framefuse {
namespace {

using Permutation = std::vector<std::int64_t>;

std::int64_t Wrap(std::int64_t dim, std::size_t rank) { return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim; }

// The permutation that t, transpose and permute are; none for other operators.
std::optional<Permutation> PermutationOf(const ir::Graph& g, const ir::Node& n) {
  const ir::OpName name = ir::NameOf(n.op);
  if (name != ir::OpName::kT && name != ir::OpName::kTransposeInt && name != ir::OpName::kPermute) return std::nullopt;
  std::size_t rank = g.value(n.args[0].value).rank();
  Permutation p(rank);
  std::iota(p.begin(), p.end(), 0);
  if (name == ir::OpName::kPermute) {
    if (n.args[1].kind != ir::Arg::Kind::kConstant) return std::nullopt;
    c10::List<std::int64_t> dims = n.args[1].constant.toIntList();
    for (std::size_t i = 0; i < rank; ++i) p[i] = Wrap(dims[i], rank);
    return p;
  }
  std::int64_t a = name == ir::OpName::kT ? 0 : n.args[1].constant.toInt();
  std::int64_t b = name == ir::OpName::kT ? 1 : n.args[2].constant.toInt();
  if (rank >= 2) std::swap(p[At(Wrap(a, rank))], p[At(Wrap(b, rank))]);
  return p;
}

bool IsReshape(const ir::Op& op) { return ir::Is(&op, ir::OpName::kView) || ir::Is(&op, ir::OpName::k_UnsafeView); }

class ViewSimplifier {
 public:
  explicit ViewSimplifier(ir::Graph& g)
      : g_(g),
        aliases_(g),
        definitions_(g.Definitions()),
        replacements_(g.values.size()),
        stays_(g.values.size(), false),
        backward_(g.has_backward()) {
    for (const ir::Output& o : g.outputs) {
      const bool has_node = ir::IsView(o) && o.requires_grad;
      if ((o.role == ir::OutputRole::kMutatedInput || has_node) && o.value != ir::kNoValue) stays_[At(o.value)] = true;
    }
  }

  bool Run() {
    for (ir::Node& n : g_.nodes) {
      replacements_.Apply(n);
      bool plain = n.outputs.size() == 1 && n.outputs[0] != ir::kNoValue && !n.args.empty() &&
                   n.args[0].kind == ir::Arg::Kind::kValue;
      if (!plain || aliases_.IsOutput(n.outputs[0]) || IsCut(n)) continue;
      MergePermutations(n);
      MergeReshapes(n);
    }
    replacements_.ApplyToOutputs(g_);
    return changed_;
  }

 private:
  const ir::Node* DefinitionOf(ir::ValueId v) const {
    ir::NodeIndex i = definitions_[At(v)];
    if (i == ir::kNoNode || (backward_ && stays_[At(v)])) return nullptr;
    return IsCut(g_.nodes[At(i)]) ? nullptr : &g_.nodes[At(i)];
  }

  // A second derivative does not go through it: of a view of both it would have to go through neither.
  bool IsCut(const ir::Node& n) const { return backward_ && (n.detached_uses != 0 || n.history != ir::History::kKept); }

  void MergePermutations(ir::Node& n) {
    std::optional<Permutation> outer = PermutationOf(g_, n);
    const ir::Node* inner_node = outer.has_value() ? DefinitionOf(n.args[0].value) : nullptr;
    std::optional<Permutation> inner = inner_node != nullptr ? PermutationOf(g_, *inner_node) : std::nullopt;
    if (!inner.has_value()) return;
    Permutation both(outer->size());
    bool identity = true;
    for (std::size_t i = 0; i < both.size(); ++i) {
      both[i] = (*inner)[At((*outer)[i])];
      identity = identity && both[i] == static_cast<std::int64_t>(i);
    }
    ir::ValueId source = inner_node->args[0].value;
    changed_ = true;
    if (identity) {
      replacements_.Replace(n.outputs[0], source);
      return;
    }
    n.op = ir::RequireOp(ir::OpName::kPermute);
    n.args = {ir::Arg::OfValue(source), ir::Arg::Constant(c10::List<std::int64_t>(both))};
  }

  // A contiguous tensor can be viewed with any sizes at once.
  void MergeReshapes(ir::Node& n) {
    if (!IsReshape(*n.op)) return;
    const ir::Node* inner = DefinitionOf(n.args[0].value);
    if (inner == nullptr || !IsReshape(*inner->op)) return;
    ir::ValueId source = inner->args[0].value;
    if (!ir::IsContiguous(g_.exprs, g_.value(source))) return;
    n.args[0] = ir::Arg::OfValue(source);
    changed_ = true;
  }

  ir::Graph& g_;
  Aliases aliases_;
  std::vector<ir::NodeIndex> definitions_;
  Replacements replacements_;
  // By value: what an input holds behind the graph, whose memory is the user's, who may write it by `x.data` before the
  // backward reads it. And views among the results: a second derivative comes to their nodes.
  std::vector<bool> stays_;
  bool backward_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> SimplifyViews(ir::Graph& g) { return g.functional ? ViewSimplifier(g).Run() : false; }

}  // namespace framefuse
