#include "backends/runtime/output_views.h"
#include "backends/graph/operators.h"
#include "common/index.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace framefuse {
namespace {

using ir::Arg;
using ir::Node;
using ir::ValueId;

// Position of a result among the elements of a returned list, -1 if the op returns it plainly.
std::int32_t ResultIndex(const Node& n, ValueId v) {
  if (n.list_sizes.empty()) return -1;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == v) return static_cast<std::int32_t>(i);
  }
  return -1;
}

c10::IValue Evaluate(const Arg& arg, const ir::ExprTable& exprs, absl::Span<const std::int64_t> symbols) {
  switch (arg.kind) {
    case Arg::Kind::kConstant:
      return arg.constant;
    case Arg::Kind::kDim:
      return exprs.Evaluate(arg.dims[0], symbols);
    case Arg::Kind::kDimList: {
      c10::List<std::int64_t> list;
      for (const ir::Dim& d : arg.dims) list.push_back(exprs.Evaluate(d, symbols));
      return list;
    }
    case Arg::Kind::kNone:
    case Arg::Kind::kValue:
    case Arg::Kind::kValueList:
      break;
  }
  return {};
}

bool HasOtherValues(const Node& n, std::int32_t viewed) {
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    bool value = n.args[a].kind == Arg::Kind::kValue || n.args[a].kind == Arg::Kind::kValueList;
    if (value && static_cast<std::int32_t>(a) != viewed) return true;
  }
  return false;
}

}  // namespace

ViewRecipe ViewRecipe::Create(const ir::Graph& graph, const std::vector<ValueId>& bases, ValueId view) {
  ViewRecipe recipe;
  recipe.metadata_ = graph.value(view);
  recipe.exprs_ = graph.exprs;
  std::vector<ir::NodeIndex> definitions = graph.Definitions();
  while (std::find(bases.begin(), bases.end(), view) == bases.end()) {
    ir::NodeIndex index = definitions[At(view)];
    bool found = false;
    if (index != ir::kNoNode) {
      const Node& n = graph.nodes[At(index)];
      bool plain = n.op->is_view() && n.op->returns().size() == 1 && !n.op->mutates();
      std::int32_t viewed = plain ? n.op->returns()[0].viewed_argument : -1;
      if (viewed >= 0 && n.args[At(viewed)].kind == Arg::Kind::kValue && !HasOtherValues(n, viewed)) {
        recipe.steps_.push_back({n.op, n.args, viewed, ResultIndex(n, view)});
        view = n.args[At(viewed)].value;
        found = true;
      }
    }
    if (!found) {
      recipe.steps_.clear();
      recipe.by_strides_ = true;
      if (!bases.empty()) recipe.base_offset_ = graph.value(bases.front()).offset;
      return recipe;
    }
  }
  recipe.base_ = view;
  std::reverse(recipe.steps_.begin(), recipe.steps_.end());
  return recipe;
}

bool ViewRecipe::EndsAsStrided() const {
  return by_strides_ || (!steps_.empty() && ir::Is(steps_.back().op, ir::OpName::kAsStrided));
}

bool ViewRecipe::MayThrow() const {
  return by_strides_ || std::any_of(steps_.begin(), steps_.end(),
                                    [](const ViewStep& s) { return ir::Is(s.op, ir::OpName::kAsStrided); });
}

at::Tensor ViewRecipe::Apply(const at::Tensor& base, absl::Span<const std::int64_t> symbols) const {
  if (by_strides_) {
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    for (const ir::Dim& d : metadata_.sizes) sizes.push_back(exprs_.Evaluate(d, symbols));
    for (const ir::Dim& d : metadata_.strides) strides.push_back(exprs_.Evaluate(d, symbols));
    const std::int64_t past = exprs_.Evaluate(metadata_.offset, symbols) - exprs_.Evaluate(base_offset_, symbols);
    return at::as_strided(base, sizes, strides, base.storage_offset() + past);
  }
  at::Tensor t = base;
  torch::jit::Stack stack;
  for (const ViewStep& s : steps_) {
    for (std::size_t a = 0; a < s.args.size(); ++a) {
      stack.push_back(static_cast<std::int32_t>(a) == s.viewed ? c10::IValue(t) : Evaluate(s.args[a], exprs_, symbols));
    }
    s.op->handle().callBoxed(stack);
    t = s.result < 0 ? stack[0].toTensor() : stack[0].toListRef()[At(s.result)].toTensor();
    stack.clear();
  }
  // No view node between them: the same elements, but a tensor of its own.
  return t.is_same(base) ? t.alias() : t;
}

bool IsNameOfRenewedHistory(const std::string& name) { return name == "AsStridedBackward0"; }

void OutdateHistory(const at::Tensor& view) {
  auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  const bool may_be =
      meta != nullptr && meta->has_bw_view() && meta->get_creation_meta() == torch::autograd::CreationMeta::DEFAULT;
  if (may_be) meta->set_attr_version(UINT32_MAX);  // of no version that there is
  if (may_be) (void)view.grad_fn();  // now: torch ends the process where a hook is put on one that is not up to date
}

}  // namespace framefuse
