// Drops what returns its argument: conversions to the same dtype, views of the same shape.
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "backends/graph/operators.h"
#include "backends/graph/reads_of_copies.h"
#include "backends/graph/spelled_histories.h"
#include "backends/passes/aliases.h"
#include "backends/passes/pass.h"
#include "backends/passes/rewrite.h"

namespace framefuse {
namespace {

bool SameMetadata(const ir::Value& a, const ir::Value& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.device == b.device && a.layout == b.layout && a.sizes == b.sizes &&
         a.strides == b.strides;
}

// These change what the elements mean, not where they are.
constexpr ir::OpNames kOtherMeaning{ir::OpName::k_Conj, ir::OpName::k_NegView};
constexpr ir::OpNames kCopies{ir::OpName::kClone, ir::OpName::k_ToCopy};

// Of a transposition the sizes say it: strides that are alike may be those that a meta kernel promised by mistake.
bool StaysInPlace(const ir::Node& n, const ir::Value& to) {
  const auto rank = static_cast<std::int64_t>(to.rank());
  const auto stays = [&](std::int64_t dim, std::int64_t from) {
    const std::int64_t d = dim < 0 ? dim + rank : dim;
    return d == (from < 0 ? from + rank : from) || to.sizes[static_cast<std::size_t>(d)].Is(1);
  };
  if (ir::Is(n.op, ir::OpName::kT)) return rank < 2 || stays(0, 1);
  if (ir::Is(n.op, ir::OpName::kTransposeInt)) {
    return rank == 0 || stays(n.args[1].constant.toInt(), n.args[2].constant.toInt());
  }
  if (!ir::Is(n.op, ir::OpName::kPermute)) return true;
  const std::vector<std::int64_t> order = n.args[1].constant.toIntVector();
  for (std::size_t d = 0; d < order.size(); ++d) {
    if (!stays(static_cast<std::int64_t>(d), order[d])) return false;
  }
  return true;
}

class NoOpRemover {
 public:
  explicit NoOpRemover(ir::Graph& g)
      : g_(g), aliases_(g), backward_(g.has_backward()), replacements_(g.values.size()) {}

  bool Run() {
    for (const ir::Node& n : g_.nodes) {
      if (ir::Is(n.op, ir::OpName::kCopy)) copied_into_.insert(n.args[0].value);
      NoteLateUses(n);
    }
    std::vector<ir::Node> nodes;
    nodes.reserve(g_.nodes.size());
    for (ir::Node& n : g_.nodes) {
      NoteDetached(n);
      NoteWaiting(n);
      replacements_.Apply(n);
      if (IsNoOp(n) && !(Detaches(n) && used_late_.contains(n.outputs[0]))) {
        if (Detaches(n)) detached_.insert(n.outputs[0]);
        if (ir::IsUncounted(n, 0)) uncounted_.insert(n.outputs[0]);
        replacements_.Replace(n.outputs[0], n.args[0].value);
      } else {
        nodes.push_back(std::move(n));
      }
    }
    g_.nodes = std::move(nodes);
    return replacements_.any();
  }

 private:
  // A second derivative is not to go through what was detached, when the node that did it is gone.
  void NoteDetached(ir::Node& n) const {
    std::size_t use = 0;
    if (detached_.empty() && uncounted_.empty()) return;
    ir::ForEachUse(n, [&](ir::ValueId v) {
      if (use < 64 && detached_.contains(v)) n.detached_uses |= std::uint64_t{1} << use;
      if (use < 64 && uncounted_.contains(v)) n.uncounted_uses |= std::uint64_t{1} << use;
      ++use;
    });
  }

  void NoteWaiting(const ir::Node& n) {
    const bool is_view = ViewedArgument(*n.op) == 0 && n.args[0].kind == ir::Arg::Kind::kValue;
    if (!is_view || n.outputs.size() != 1) return;
    if (kOtherMeaning.contains(n.op) || waiting_.contains(n.args[0].value)) waiting_.insert(n.outputs[0]);
  }

  static bool Detaches(const ir::Node& n) {
    const bool detach = ir::Is(n.op, ir::OpName::kDetach) && n.phase == ir::Phase::kForward;
    return detach || n.detached_uses != 0 || n.history != ir::History::kKept;
  }

  // No bit says that such a use was detached.
  void NoteLateUses(const ir::Node& n) {
    std::size_t use = 0;
    ir::ForEachUse(n, [&](ir::ValueId v) {
      if (use++ >= 64) used_late_.insert(v);
    });
  }

  bool IsNoOp(const ir::Node& n) const {
    bool unary = n.outputs.size() == 1 && n.list_sizes.empty() && n.outputs[0] != ir::kNoValue && !n.args.empty() &&
                 n.args[0].kind == ir::Arg::Kind::kValue;
    if (!unary || aliases_.IsOutput(n.outputs[0]) || ir::CopyReadBy(n) != ir::CopyRead::kNone) return false;
    const ir::Value& from = g_.value(n.args[0].value);
    const ir::Value& to = g_.value(n.outputs[0]);
    if (!SameMetadata(from, to) || from.wrapped_number != to.wrapped_number) return false;
    if (ViewedArgument(*n.op) == 0) {
      return from.offset == to.offset && !kOtherMeaning.contains(n.op) && StaysInPlace(n, to);
    }
    return kCopies.contains(n.op) && CopyIsUnobservable(n);
  }

  // Without its copy a value would share memory that the user holds: through an output, or an input that backward
  // saves.
  bool CopyIsUnobservable(const ir::Node& n) const {
    ir::ValueId from = n.args[0].value;
    if (aliases_.Escapes(n.outputs[0]) || waiting_.contains(from)) return false;
    // `copy` gives a tensor that lies in its memory as its first argument does, with all that is around it.
    const bool is_piece = aliases_.RootOf(from) != from || aliases_.FromInput(from);
    if (is_piece && copied_into_.contains(n.outputs[0])) return false;
    return !backward_ || (!aliases_.Escapes(from) && !aliases_.FromInput(from));
  }

  ir::Graph& g_;
  Aliases aliases_;
  bool backward_;
  std::set<ir::ValueId> copied_into_;
  std::set<ir::ValueId> detached_;   // and replaced
  std::set<ir::ValueId> uncounted_;  // likewise
  std::set<ir::ValueId> used_late_;
  std::set<ir::ValueId> waiting_;  // for a sign, which a copy of them has changed
  Replacements replacements_;
};

}  // namespace

absl::StatusOr<bool> RemoveNoOps(ir::Graph& g) { return g.functional ? NoOpRemover(g).Run() : false; }

}  // namespace framefuse
