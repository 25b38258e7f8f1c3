#include "backends/fusion/lift_views.h"

#include <ATen/TensorUtils.h>

#include <map>
#include <optional>
#include <set>

#include "backends/fusion/decompose_rules.h"
#include "backends/fusion/node_writer.h"
#include "backends/fusion/pointwise.h"
#include "backends/graph/operators.h"
#include "backends/passes/rewrite.h"

namespace framefuse::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::ValueId;

bool IsView(const Node& n) { return ir::Is(n.op, ir::OpName::kView) || ir::Is(n.op, ir::OpName::k_UnsafeView); }

// There are fewer bytes to read before it than behind it. Of another cast the kernel that makes its operand writes
// less.
bool Widens(const Graph& g, const Node& cast) {
  return c10::elementSize(g.value(cast.args[0].value).dtype) < c10::elementSize(g.value(cast.outputs[0]).dtype);
}

// Widening casts that nothing reads but views.
std::map<ValueId, const Node*> CastsBehindViews(const Graph& g) {
  std::map<ValueId, const Node*> casts;
  std::set<ValueId> viewed;
  for (const Node& n : g.nodes) {
    ir::ForEachUse(n, [&](ValueId v) { IsView(n) ? (void)viewed.insert(v) : (void)casts.erase(v); });
    if (ir::Is(n.op, ir::OpName::k_ToCopy) && IsPointwise(g, n) && Widens(g, n)) casts[n.outputs[0]] = &n;
  }
  for (const ir::Output& o : g.outputs) casts.erase(o.value);
  std::erase_if(casts, [&](const auto& cast) { return !viewed.contains(cast.first); });
  return casts;
}

// The view of what the cast reads, if it has one of these sizes.
std::optional<ir::Value> ViewBefore(const Graph& g, const Node& cast, const Node& view) {
  const ir::Value& from = g.value(cast.args[0].value);
  const std::optional<Dims> sizes = Constants(from.sizes), strides = Constants(from.strides),
                            wanted = Constants(g.value(view.outputs[0]).sizes);
  if (!sizes || !strides || !wanted) return std::nullopt;
  const auto made = at::detail::computeStride(*sizes, *strides, at::IntArrayRef(*wanted));
  if (!made) return std::nullopt;
  ir::Value before = from;
  before.sizes = g.value(view.outputs[0]).sizes;
  before.strides.assign(made->begin(), made->end());
  return before;
}

}  // namespace

absl::StatusOr<bool> LiftViews(Graph& g) {
  const std::map<ValueId, const Node*> casts = CastsBehindViews(g);
  if (casts.empty()) return false;
  std::map<ValueId, const Node*> cast_of;  // of views, and of views of them
  std::vector<Node> nodes;
  bool changed = false;
  for (const Node& n : g.nodes) {
    const Node* cast = nullptr;
    if (IsView(n)) {
      const auto own = casts.find(n.args[0].value);
      const auto through = cast_of.find(n.args[0].value);
      cast = own != casts.end() ? own->second : through != cast_of.end() ? through->second : nullptr;
    }
    const std::optional<ir::Value> before = cast == nullptr ? std::nullopt : ViewBefore(g, *cast, n);
    if (!before) {
      nodes.push_back(n);
      continue;
    }
    changed = true;
    cast_of[n.outputs[0]] = cast;
    NodeWriter w(&g, &nodes, n);
    ValueId from = cast->args[0].value;
    if (before->sizes != g.value(from).sizes) {
      from = w.Call(ir::OpName::kView, {ir::Arg::OfValue(from), ir::Arg::OfDims(before->sizes)}, *before);
    }
    ir::Value& own = g.value(n.outputs[0]);
    own.storage = -1;
    w.Into(n.outputs[0]).To(from, own.dtype);
  }
  g.nodes = std::move(nodes);
  return changed;
}

absl::StatusOr<bool> DropViews(Graph& g) {
  std::set<ValueId> outputs;
  for (const ir::Output& o : g.outputs) outputs.insert(o.value);
  Replacements same(g.values.size());
  std::map<ValueId, ValueId> root_of;  // of views
  for (Node& n : g.nodes) {
    same.Apply(n);
    if (!IsView(n)) continue;
    const ValueId in = n.args[0].value, out = n.outputs[0];
    const auto through = root_of.find(in);
    const ValueId root = root_of[out] = through == root_of.end() ? in : through->second;
    const ir::Value &base = g.value(root), &view = g.value(out);
    if (base.sizes == view.sizes && base.strides == view.strides && !outputs.contains(out)) same.Replace(out, root);
  }
  return same.any();
}

}  // namespace framefuse::fusion
