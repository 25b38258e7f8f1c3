// One node for equal nodes, as long as nothing that they read is written in between.
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backends/passes/aliases.h"
#include "backends/passes/pass.h"
#include "backends/passes/rewrite.h"

namespace framefuse {
namespace {

// A node's identity as bytes: operator and arguments, with their types.
class NodeKey {
 public:
  static std::string Of(const ir::Node& n) {
    NodeKey key;
    key.Address(n.op);
    for (const ir::Arg& a : n.args) key.Argument(a);
    for (std::int32_t s : n.list_sizes) key.Raw(s);
    key.Raw(n.history);
    key.Raw(n.detached_uses);
    key.Raw(n.uncounted_uses);
    return std::move(key.bytes_);
  }

 private:
  template <typename T>
  void Raw(const T& v) {
    char buffer[sizeof(T)];
    std::memcpy(buffer, &v, sizeof(T));
    bytes_.append(buffer, sizeof(T));
  }

  void Address(const void* p) { Raw(reinterpret_cast<std::uintptr_t>(p)); }

  void Argument(const ir::Arg& a) {
    Raw(a.kind);
    Raw(a.value);
    Raw(a.values.size());
    for (ir::ValueId v : a.values) Raw(v);
    if (a.kind == ir::Arg::Kind::kConstant) Constant(a.constant);
    Raw(a.dims.size());
    for (const ir::Dim& d : a.dims) {
      Raw(d.is_constant() ? d.constant() : 0);
      Raw(d.expr);
    }
  }

  void Constant(const c10::IValue& v) {
    if (v.isInt()) {
      bytes_ += 'i';
      Raw(v.toInt());
    } else if (v.isDouble()) {
      bytes_ += 'd';
      Raw(v.toDouble());
    } else if (v.isBool()) {
      bytes_ += v.toBool() ? 'T' : 'F';
    } else if (v.isComplexDouble()) {
      bytes_ += 'c';
      Raw(v.toComplexDouble().real());
      Raw(v.toComplexDouble().imag());
    } else if (v.isString()) {
      bytes_ += 's';
      Raw(v.toStringRef().size());
      bytes_ += v.toStringRef();
    } else if (v.isDevice()) {
      bytes_ += 'D';
      Raw(static_cast<int>(v.toDevice().type()));
      Raw(static_cast<int>(v.toDevice().index()));
    } else if (v.isList()) {
      bytes_ += '[';
      for (const c10::IValue& e : v.toListRef()) Constant(e);
      bytes_ += ']';
    } else {
      bytes_ += '?';
      Address(&v);  // nothing equals it
    }
  }

  std::string bytes_;
};

// Whether the backward computes it from memory that the user may write: eager saved that memory, and notices the write.
// The forward's equal node would stand in for it, and nothing would be saved to notice it by.
bool NoticesWrites(const ir::Node& n, const Aliases& aliases) {
  if (n.phase != ir::Phase::kBackward || n.op->is_view()) return false;
  bool reads = false;
  ir::ForEachUse(n, [&](ir::ValueId v) { reads = reads || aliases.FromInput(v) || aliases.Escapes(v); });
  return reads;
}

// What equal nodes share and few others do: whole keys are made of those that share it.
using NodeHint = std::tuple<const ir::Op*, ir::ValueId, bool>;
NodeHint HintOf(const ir::Node& n, const Aliases& aliases) {
  return {n.op, n.args.empty() ? ir::kNoValue : n.args[0].value, NoticesWrites(n, aliases)};
}

// The kept nodes of one hint: keys are made from the second on.
class Similar {
 public:
  // The index of the kept node that `n` equals, or else `index`, which is `n`'s from now on.
  std::size_t FindOrAdd(const std::vector<ir::Node>& nodes, const ir::Node& n, std::size_t index) {
    if (!first_) {
      first_ = index;
      return index;
    }
    if (by_key_.empty()) by_key_.emplace(NodeKey::Of(nodes[*first_]), *first_);
    return by_key_.try_emplace(NodeKey::Of(n), index).first->second;
  }

 private:
  std::optional<std::size_t> first_;
  absl::flat_hash_map<std::string, std::size_t> by_key_;
};

void MergeInto(ir::Node& same, const ir::Node& n, Replacements& replacements) {
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == ir::kNoValue) continue;
    if (same.outputs[i] == ir::kNoValue) {
      same.outputs[i] = n.outputs[i];
    } else {
      replacements.Replace(n.outputs[i], same.outputs[i]);
    }
  }
}

bool MayMerge(const ir::Node& n, const Aliases& aliases) {
  if (n.op->is_random() || n.op->mutates() || n.op->has_side_effect()) return false;
  for (ir::ValueId v : n.outputs) {
    // Two outputs of the user's stay two tensors, and what he may write stays apart from what backward saves.
    if (v != ir::kNoValue && aliases.Escapes(v)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> MergeCommonSubexpressions(ir::Graph& g) {
  if (!g.functional) return false;
  Aliases aliases(g);
  Replacements replacements(g.values.size());
  absl::flat_hash_map<NodeHint, Similar> kept;
  std::vector<ir::Node> nodes;
  nodes.reserve(g.nodes.size());
  for (ir::Node& n : g.nodes) {
    replacements.Apply(n);
    if (MayMerge(n, aliases)) {
      const std::size_t same = kept[HintOf(n, aliases)].FindOrAdd(nodes, n, nodes.size());
      if (same < nodes.size()) {
        MergeInto(nodes[same], n, replacements);
        continue;
      }
    }
    nodes.push_back(std::move(n));
  }
  bool changed = nodes.size() != g.nodes.size();
  g.nodes = std::move(nodes);
  replacements.ApplyToOutputs(g);
  return changed;
}

}  // namespace framefuse
