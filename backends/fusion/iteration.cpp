#include "backends/fusion/iteration.h"

#include <algorithm>
#include <optional>

#include "backends/fusion/gather.h"

namespace framefuse::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::ValueId;

// A table has its rows' strides, and an index none there.
bool GatherStrides(const Graph& g, const Group& group, ValueId v, std::vector<Dim>* strides) {
  const ir::Value& value = g.value(v);
  for (ir::NodeIndex n : group.nodes) {
    const std::optional<GatherForm> form = GatherOf(g, g.nodes[static_cast<std::size_t>(n)]);
    if (!form || (form->table != v && form->index != v)) continue;
    const bool table = form->table == v;
    for (std::size_t d = table ? 1 : 0; d < value.sizes.size(); ++d) {
      if (value.sizes[d] != Dim(1)) (*strides)[table ? form->index_rank + d - 1 : d] = value.strides[d];
    }
    return true;
  }
  return false;
}

// Strides of a value over the group's dimensions; 0 where it is broadcast or reduced.
std::vector<Dim> StridesOver(const Graph& g, const Group& group, ValueId v) {
  const ir::Value& value = g.value(v);
  std::vector<Dim> strides(group.shape.size(), Dim(0));
  if (GatherStrides(g, group, v, &strides)) return strides;
  const std::size_t reduced = group.reduce_end - group.reduce_begin;
  // A reduction without kept dimensions is the only value with fewer of them on the left of others; or a target of one.
  bool dropped = group.has_reduction() && value.sizes.size() + reduced == group.shape.size();
  for (std::size_t d = 0, k = 0; dropped && d < group.shape.size(); ++d) {
    if (d >= group.reduce_begin && d < group.reduce_end) continue;
    dropped = value.sizes[k++] == group.shape[d];
  }
  const auto definitions_reduce = [&] {
    for (ir::NodeIndex n : group.nodes) {
      const ir::Node& node = g.nodes[static_cast<std::size_t>(n)];
      ReductionForm form;
      if (node.outputs[0] == v && IsReduction(g, node, &form)) return !form.keep;
      if (IsReduction(g, node, &form) && form.picks && node.args[1].value == v) return true;
    }
    return false;
  };
  if (dropped && definitions_reduce()) {
    for (std::size_t d = 0, k = 0; d < group.shape.size(); ++d) {
      if (d < group.reduce_begin || d >= group.reduce_end) strides[d] = value.strides[k++];
    }
    return strides;
  }
  const std::size_t shift = group.shape.size() - value.sizes.size();
  for (std::size_t d = 0; d < value.sizes.size(); ++d) {
    if (value.sizes[d] != Dim(1)) strides[d + shift] = value.strides[d];
  }
  return strides;
}

// Merges an axis into the one outside it where every operand steps through both evenly.
void Collapse(Graph& g, std::vector<Axis>* axes) {
  std::vector<Axis> out;
  for (Axis& axis : *axes) {
    if (axis.extent == Dim(1)) continue;
    if (!out.empty()) {
      bool even = true;
      for (std::size_t o = 0; o < axis.strides.size(); ++o) {
        even = even && out.back().strides[o] == g.exprs.Make(ir::ExprKind::kMul, axis.strides[o], axis.extent);
      }
      if (even) {
        out.back().extent = g.exprs.Make(ir::ExprKind::kMul, out.back().extent, axis.extent);
        out.back().strides = std::move(axis.strides);
        continue;
      }
    }
    out.push_back(std::move(axis));
  }
  *axes = std::move(out);
}

// Larger strides of the deciding operand outside; broadcast dimensions keep their place.
void SortAxes(Graph& g, std::size_t decider, std::vector<Axis>* axes) {
  const auto stride = [&](const Axis& a) { return g.exprs.Hint(a.strides[decider]); };
  for (std::size_t i = 1; i < axes->size(); ++i) {
    for (std::size_t k = i; k > 0; --k) {
      const std::int64_t left = stride((*axes)[k - 1]), right = stride((*axes)[k]);
      if (left == 0 || right == 0 || left >= right) break;
      std::swap((*axes)[k - 1], (*axes)[k]);
    }
  }
}

// An index counts the reduced dimensions in their own order.
bool HasIndex(const Graph& g, const Group& group) {
  return std::any_of(group.nodes.begin(), group.nodes.end(), [&](ir::NodeIndex n) {
    ReductionForm form;
    return IsReduction(g, g.nodes[static_cast<std::size_t>(n)], &form) && form.index;
  });
}

}  // namespace

Iteration MakeIteration(Graph& g, const Group& group, const std::vector<ValueId>& inputs,
                        const std::vector<ValueId>& outputs) {
  Iteration it;
  for (ValueId v : inputs) it.operands.push_back({v, false, StridesOver(g, group, v)});
  for (ValueId v : outputs) it.operands.push_back({v, true, StridesOver(g, group, v)});
  // The order of dimensions follows a full-sized output, else a full-sized input.
  std::size_t decider = 0;
  for (std::size_t o = 0; o < it.operands.size(); ++o) {
    if (g.value(it.operands[o].value).sizes == group.shape) decider = o;
  }
  for (std::size_t d = 0; d < group.shape.size(); ++d) {
    Axis axis{group.shape[d], {}};
    for (const Operand& operand : it.operands) axis.strides.push_back(operand.strides[d]);
    const bool reduced = d >= group.reduce_begin && d < group.reduce_end;
    const bool inner = group.kind == GroupKind::kColumn ? d >= group.inner_begin : group.kind == GroupKind::kPointwise;
    (reduced ? it.reduced : inner ? it.inner : it.outer).push_back(std::move(axis));
  }
  for (std::vector<Axis>* axes : {&it.outer, &it.reduced, &it.inner}) {
    if (axes != &it.reduced || !HasIndex(g, group)) SortAxes(g, decider, axes);
    Collapse(g, axes);
  }
  return it;
}

}  // namespace framefuse::fusion
