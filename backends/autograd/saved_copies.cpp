#include "backends/autograd/saved_copies.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/operators.h"
#include "backends/graph/reads_of_copies.h"
#include "backends/graph/spelled_histories.h"
#include "backends/passes/aliases.h"
#include "backends/passes/rewrite.h"
#include "common/index.h"

namespace framefuse {
namespace {

using ir::CopyRead;
using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

bool ReadsByData(const Node& n, std::size_t use) { return ir::IsDetached(n, use) && ir::IsUncounted(n, use); }

class CopySaver {
 public:
  explicit CopySaver(ir::Graph& joint)
      : g_(joint), aliases_(joint), definitions_(joint.Definitions()), replacements_(joint.values.size()) {}

  std::vector<SavedCopy> Run() {
    const std::vector<Node> recorded = std::move(g_.nodes);
    recorded_ = &recorded;
    for (Node n : recorded) {
      replacements_.Apply(n);
      if (n.phase == ir::Phase::kForward) end_of_forward_ = nodes_.size() + 1;
      const CopyRead read = ir::CopyReadBy(n);
      if (read == CopyRead::kNone) {
        nodes_.push_back(std::move(n));
      } else {
        replacements_.Replace(n.outputs[0], ReadAs(read, n.args[0].value));
      }
    }
    nodes_.insert(nodes_.begin() + static_cast<std::ptrdiff_t>(end_of_forward_),
                  std::make_move_iterator(copies_.begin()), std::make_move_iterator(copies_.end()));
    g_.nodes = std::move(nodes_);
    replacements_.ApplyToOutputs(g_);
    return std::move(saved_);
  }

 private:
  ValueId ReadAs(CopyRead read, ValueId v) {
    const ValueId root = aliases_.RootOf(v);
    if (!StaysWhereItIs(root)) return v;
    std::int32_t counts_with = -1;
    for (std::size_t o = g_.outputs.size(); o-- > 0 && read == CopyRead::kOfResult;) {
      if (g_.outputs[o].own_version && MemoryOf(g_.outputs[o]) == root) counts_with = static_cast<std::int32_t>(o);
    }
    return read == CopyRead::kOfResult && counts_with < 0 ? v : InCopy(v, root, counts_with);
  }

  // The value of a view that is rebuilt may be gone.
  ValueId MemoryOf(const ir::Output& o) const {
    ValueId v = o.alias == ir::OutputAlias::kViewOfOutput ? g_.outputs[At(o.alias_of)].value : o.value;
    if (o.alias == ir::OutputAlias::kViewOfInput) {
      const ir::Input& in = g_.inputs[At(o.alias_of)];
      v = in.mutated_output < 0 ? in.value : g_.outputs[At(in.mutated_output)].value;
    }
    return v == kNoValue ? v : aliases_.RootOf(v);
  }

  // The memory of the value is what a user holds.
  bool StaysWhereItIs(ValueId root) const {
    for (const ir::Input& in : g_.inputs) {
      if (in.value == root) return !in.mutated;
    }
    bool leaves = false;
    for (const ir::Output& o : g_.outputs) {
      if (MemoryOf(o) != root) continue;
      leaves = leaves || o.role != ir::OutputRole::kGradient;
    }
    return leaves;
  }

  // `v`, a view of `root` or that itself, in the copy.
  ValueId InCopy(ValueId v, ValueId root, std::int32_t counts_with) {
    const auto made = made_.find({v, counts_with});
    if (made != made_.end()) return made->second;
    ValueId result = v;
    if (v == root) {
      Node alias;
      alias.op = ir::RequireOp(ir::OpName::kAlias);
      alias.history = ir::History::kCut;
      alias.args = {ir::Arg::OfValue(root)};
      alias.outputs = {result = ValueLike(root)};
      copies_.push_back(std::move(alias));
      saved_.push_back({result, root, counts_with});
    } else {
      Node view = (*recorded_)[At(definitions_[At(v)])];
      ir::Arg& base = view.args[At(ViewedArgument(*view.op))];
      base.value = InCopy(base.value, root, counts_with);
      view.phase = ir::Phase::kBackward;
      for (ValueId& o : view.outputs) {
        if (o == kNoValue) continue;
        const ValueId copy = ValueLike(o);
        if (o == v) result = copy;
        o = copy;
      }
      nodes_.push_back(std::move(view));
    }
    made_[{v, counts_with}] = result;
    return result;
  }

  ValueId ValueLike(ValueId v) {
    ir::Value metadata = g_.value(v);
    metadata.requires_grad = false;
    return g_.AddValue(std::move(metadata));
  }

  ir::Graph& g_;
  const Aliases aliases_;
  const std::vector<ir::NodeIndex> definitions_;
  Replacements replacements_;
  const std::vector<Node>* recorded_ = nullptr;
  std::vector<Node> nodes_, copies_;
  std::size_t end_of_forward_ = 0;
  std::vector<SavedCopy> saved_;
  absl::flat_hash_map<std::pair<ValueId, std::int32_t>, ValueId> made_;
};

class CopyReader {
 public:
  CopyReader(ir::Graph& joint, const std::vector<ValueId>& copies, const std::vector<bool>& in_copies,
             const std::vector<HeldByInput>& before)
      : g_(joint), aliases_(joint), definitions_(joint.Definitions()), in_copies_(in_copies) {
    for (const HeldByInput& b : before) before_[b.value] = b.number;
    for (const ValueId copy : copies) {
      const Node& alias = g_.nodes[At(definitions_[At(copy)])];
      in_copy_.try_emplace(alias.args[0].value, copy);
    }
  }

  std::vector<HeldByInput> Run() {
    recorded_ = std::move(g_.nodes);
    for (const Node& recorded : recorded_) {
      Node n = recorded;
      std::size_t use = 0;
      const auto read = [&](ValueId& v) {
        const bool by_data = ReadsByData(recorded, use++);
        const bool in_copy = by_data || (in_copies_[At(v)] && !before_.contains(aliases_.RootOf(v)));
        if (in_copy && n.phase == ir::Phase::kForward) v = InCopy(v);
      };
      for (ir::Arg& a : n.args) {
        if (a.kind == ir::Arg::Kind::kValue) read(a.value);
        for (ValueId& v : a.values) {
          if (a.kind == ir::Arg::Kind::kValueList && v != kNoValue) read(v);
        }
      }
      nodes_.push_back(std::move(n));
    }
    g_.nodes = std::move(nodes_);
    return std::move(made_);
  }

 private:
  ValueId InCopy(ValueId v) {
    if (const auto known = in_copy_.find(v); known != in_copy_.end()) return known->second;
    if (const auto before = before_.find(v); before != before_.end()) return CopyOf(v, before->second);
    const ValueId root = At(v) < definitions_.size() ? aliases_.RootOf(v) : v;
    if (root == v || !(in_copy_.contains(root) || before_.contains(root))) return v;
    Node view = recorded_[At(definitions_[At(v)])];
    ir::Arg& base = view.args[At(ViewedArgument(*view.op))];
    base.value = InCopy(base.value);
    for (ValueId& o : view.outputs) {
      if (o == kNoValue) continue;
      ir::Value metadata = g_.value(o);
      in_copy_[o] = g_.AddValue(std::move(metadata));
      o = in_copy_[o];
    }
    nodes_.push_back(std::move(view));
    return in_copy_[v];
  }

  ValueId CopyOf(ValueId v, std::int32_t number) {
    ir::Value metadata = g_.value(v);
    Node clone;
    clone.op = ir::RequireOp(ir::OpName::kClone);
    clone.history = ir::History::kCut;
    clone.args = {ir::Arg::OfValue(v), ir::Arg::None()};
    const ValueId copy = g_.AddValue(std::move(metadata));
    clone.outputs = {copy};
    nodes_.push_back(std::move(clone));
    made_.push_back({copy, number});
    return in_copy_[v] = copy;
  }

  ir::Graph& g_;
  const Aliases aliases_;
  const std::vector<ir::NodeIndex> definitions_;
  const std::vector<bool>& in_copies_;
  std::vector<Node> recorded_, nodes_;
  absl::flat_hash_map<ValueId, ValueId> in_copy_;
  absl::flat_hash_map<ValueId, std::int32_t> before_;
  std::vector<HeldByInput> made_;
};

}  // namespace

std::vector<HeldByInput> ReadSavedCopies(ir::Graph& joint, const std::vector<ValueId>& copies,
                                         const std::vector<bool>& in_copies, const std::vector<HeldByInput>& before) {
  if (copies.empty() && before.empty()) return {};
  return CopyReader(joint, copies, in_copies, before).Run();
}

bool IsReadByData(const ir::Graph& joint, const std::vector<ValueId>& before) {
  if (before.empty()) return false;
  const Aliases aliases(joint);
  const auto is_before = [&](ValueId v) {
    return std::find(before.begin(), before.end(), aliases.RootOf(v)) != before.end();
  };
  return std::any_of(joint.nodes.begin(), joint.nodes.end(), [&](const Node& n) {
    if (n.phase != ir::Phase::kForward || n.detached_uses == 0) return false;
    bool reads = false;
    std::size_t use = 0;
    ir::ForEachUse(n, [&](ValueId v) { reads = (ReadsByData(n, use++) && is_before(v)) || reads; });
    return reads;
  });
}

bool IsReadByDataAlone(const ir::Graph& joint, ValueId value) {
  std::vector<bool> counted(joint.values.size(), false);  // it, and views of it that are none of x.data
  counted[At(value)] = true;
  for (const Node& n : joint.nodes) {
    bool reads = false;
    std::size_t use = 0;
    ir::ForEachUse(n, [&](ValueId v) { reads = (!ReadsByData(n, use++) && counted[At(v)]) || reads; });
    if (!reads) continue;
    if (n.phase == ir::Phase::kBackward) return false;  // what a node has saved is read here
    for (const ValueId v : n.outputs) {
      if (v != kNoValue && n.op->is_view()) counted[At(v)] = true;
    }
  }
  return true;
}

std::vector<SavedCopy> MakeSavedCopies(ir::Graph& joint) {
  const bool any = std::any_of(joint.nodes.begin(), joint.nodes.end(),
                               [](const Node& n) { return ir::CopyReadBy(n) != CopyRead::kNone; });
  return any ? CopySaver(joint).Run() : std::vector<SavedCopy>();
}

}  // namespace framefuse
