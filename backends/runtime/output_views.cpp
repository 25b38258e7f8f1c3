#include "backends/runtime/output_views.h"
#include "backends/graph/operators.h"
#include "common/index.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
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
        recipe.steps_.push_back({n.op, n.args, viewed, ResultIndex(n, view), index});
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

std::ptrdiff_t ListsOfViews::IndexOf(ir::NodeIndex node, const at::Tensor& base) const {
  // A write between two outputs gives the base another history, and what was made before is a view of the old one.
  const auto found = std::find_if(made_.rbegin(), made_.rend(), [&](const Made& m) {
    return m.node == node && m.base.is_same(base) && m.version == base._version() &&
           m.history == base.grad_fn().get() && m.with_history == at::GradMode::is_enabled();
  });
  return made_.rend() - found - 1;
}

std::optional<at::Tensor> ListsOfViews::Take(ir::NodeIndex node, const at::Tensor& base, std::size_t element) {
  const std::ptrdiff_t place = base.is_inference() ? -1 : IndexOf(node, base);
  if (place < 0 || made_[At(place)].taken[element]) return std::nullopt;
  made_[At(place)].taken[element] = true;
  return made_[At(place)].list.toListRef()[element].toTensor();
}

std::optional<at::Tensor> ListsOfViews::Find(ir::NodeIndex node, const at::Tensor& base, std::size_t element) const {
  const std::ptrdiff_t place = base.is_inference() ? -1 : IndexOf(node, base);
  if (place < 0) return std::nullopt;
  return made_[At(place)].list.toListRef()[element].toTensor();
}

void ListsOfViews::Add(ir::NodeIndex node, const at::Tensor& base, c10::IValue list) {
  if (base.is_inference()) return;
  const std::size_t size = list.toListRef().size();
  made_.push_back({node, base, static_cast<std::uint32_t>(base._version()), base.grad_fn().get(),
                   at::GradMode::is_enabled(), std::move(list), std::vector<bool>(size, false)});
}

std::size_t ViewRecipe::Start(const at::Tensor& base, ListsOfViews* lists, at::Tensor* view) const {
  for (std::size_t s = lists == nullptr ? 0 : steps_.size(); s-- > 0;) {
    if (steps_[s].result < 0) continue;
    const std::size_t element = At(steps_[s].result);
    const bool last = s + 1 == steps_.size();
    std::optional<at::Tensor> made =
        last ? lists->Take(steps_[s].node, base, element) : lists->Find(steps_[s].node, base, element);
    if (!made) continue;
    *view = *std::move(made);
    return s + 1;
  }
  *view = base;
  return 0;
}

at::Tensor ViewRecipe::Apply(const at::Tensor& base, absl::Span<const std::int64_t> symbols,
                             ListsOfViews* lists) const {
  if (by_strides_) {
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    for (const ir::Dim& d : metadata_.sizes) sizes.push_back(exprs_.Evaluate(d, symbols));
    for (const ir::Dim& d : metadata_.strides) strides.push_back(exprs_.Evaluate(d, symbols));
    const std::int64_t past = exprs_.Evaluate(metadata_.offset, symbols) - exprs_.Evaluate(base_offset_, symbols);
    return at::as_strided(base, sizes, strides, base.storage_offset() + past);
  }
  at::Tensor t;
  torch::jit::Stack stack;
  for (std::size_t next = Start(base, lists, &t); next < steps_.size(); ++next) {
    const ViewStep& s = steps_[next];
    for (std::size_t a = 0; a < s.args.size(); ++a) {
      stack.push_back(static_cast<std::int32_t>(a) == s.viewed ? c10::IValue(t) : Evaluate(s.args[a], exprs_, symbols));
    }
    s.op->handle().callBoxed(stack);
    if (s.result < 0) {
      t = stack[0].toTensor();
    } else {
      t = stack[0].toListRef()[At(s.result)].toTensor();
      if (lists != nullptr) lists->Add(s.node, base, std::move(stack[0]));
      if (lists != nullptr && next + 1 == steps_.size()) lists->Take(s.node, base, At(s.result));
    }
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
