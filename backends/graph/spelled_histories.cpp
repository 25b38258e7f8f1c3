#include "backends/graph/spelled_histories.h"

#include <utility>
#include <vector>

#include "backends/graph/operators.h"
#include "common/index.h"

namespace framefuse::ir {
namespace {

class Speller {
 public:
  Speller(Graph& g, absl::FunctionRef<bool(ValueId)> has_history) : g_(g), has_history_(has_history) {}

  void Run() {
    nodes_.reserve(g_.nodes.size());
    for (Node& n : std::exchange(g_.nodes, {})) Spell(std::move(n));
    g_.nodes = std::move(nodes_);
  }

 private:
  void Spell(Node n) {
    bool reads = false;
    ForEachUse(n, [&](ValueId v) { reads = reads || has_history_(v); });
    std::size_t use = 0;
    const auto cut = [&](ValueId& v) {
      if (v == kNoValue || !IsDetached(n, use++) || !has_history_(v)) return;
      const ValueId from = std::exchange(v, NewValueLike(v));
      Detach(from, v, n);
    };
    for (Arg& a : n.args) {
      if (a.kind == Arg::Kind::kValue) cut(a.value);
      for (ValueId& v : a.values) cut(v);
    }
    const bool without = n.history == History::kCut && reads && !n.op->mutates();
    std::vector<std::pair<ValueId, ValueId>> results;
    for (ValueId& v : n.outputs) {
      if (!without || v == kNoValue || g_.value(v).kind != ValueKind::kTensor) continue;
      results.emplace_back(NewValueLike(v), v);
      v = results.back().first;
    }
    nodes_.push_back(std::move(n));
    const Node at = nodes_.back();
    for (const auto& [from, to] : results) Detach(from, to, at);
  }

  void Detach(ValueId from, ValueId to, const Node& at) {
    Node n;
    n.op = RequireOp(OpName::kDetach);
    n.args = {Arg::OfValue(from)};
    n.outputs = {to};
    n.phase = at.phase;
    n.origin = at.origin;
    nodes_.push_back(std::move(n));
  }

  ValueId NewValueLike(ValueId v) {
    Value metadata = g_.value(v);
    return g_.AddValue(std::move(metadata));
  }

  Graph& g_;
  absl::FunctionRef<bool(ValueId)> has_history_;
  std::vector<Node> nodes_;
};

}  // namespace

bool IsDetached(const Node& n, std::size_t use) { return use < 64 && (n.detached_uses >> use & 1) != 0; }

bool IsUncounted(const Node& n, std::size_t use) { return use < 64 && (n.uncounted_uses >> use & 1) != 0; }

void SpellHistories(Graph& g, absl::FunctionRef<bool(ValueId)> has_history) { Speller(g, has_history).Run(); }

}  // namespace framefuse::ir
