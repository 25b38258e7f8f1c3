#include "backends/autograd/user_outputs.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>

#include "common/index.h"

namespace framefuse {
namespace {

bool IsMadeAgain(const UserOutput& u) {
  return u.defined && (u.alias == ir::OutputAlias::kViewOfInput || u.alias == ir::OutputAlias::kViewOfOutput);
}

}  // namespace

UserOutput PlannedAs(const ir::Output& o, std::int32_t output) {
  const bool renewed = IsNameOfRenewedHistory(o.grad_fn);
  return {output,
          o.alias,
          o.alias_of,
          o.requires_grad,
          o.without_grad,
          o.detached,
          o.own_version,
          o.value != ir::kNoValue,
          renewed,
          o.version,
          {}};
}

void SetVersion(const at::Tensor& t, std::int32_t version) {
  if (!t.defined() || t.is_inference() || t._version() >= version) return;
  c10::VariableVersion counter = t.unsafeGetTensorImpl()->version_counter();
  counter.set_version(version);
}

at::Tensor MakeView(const UserOutput& u, const at::Tensor& base, absl::Span<const std::int64_t> symbols,
                    ListsOfViews* lists) {
  if (u.detached && u.without_grad) {  // a view of what was detached, which nobody has
    at::Tensor view = u.recipe.Apply(u.own_version ? base.variable_data() : base.detach(), symbols);
    if (u.own_version) SetVersion(view, u.version);
    return view;
  }
  const bool has_history = u.requires_grad || !base.requires_grad();
  at::AutoGradMode mode(at::GradMode::is_enabled() && has_history && !u.without_grad);
  const bool of_copy = u.own_version && !u.detached;  // a view of `x.data`, which nobody has
  at::Tensor view = of_copy ? u.recipe.Apply(base.variable_data(), symbols)
                            : u.recipe.Apply(base, symbols, u.renewed ? nullptr : lists);
  if (of_copy) SetVersion(view, u.version);
  const bool inherits = view.requires_grad() && !u.requires_grad && !u.without_grad;
  if (!u.detached && !inherits) {
    if (u.renewed && view.requires_grad()) OutdateHistory(view);
    return view;
  }
  view = u.own_version ? view.variable_data() : view.detach();
  if (u.own_version) SetVersion(view, u.version);
  return view;
}

std::vector<OutputHistory::View> ViewsInTurn(absl::Span<const UserOutput> outputs,
                                             const std::vector<std::int32_t>& forward_output, const ir::Graph& joint) {
  std::vector<OutputHistory::View> views;
  for (const UserOutput& u : outputs) {
    const auto place = std::find(forward_output.begin(), forward_output.end(), u.output) - forward_output.begin();
    const std::vector<std::int32_t>& turns = joint.outputs[At(place)].turns;
    if (!IsMadeAgain(u) || turns.empty() || turns[0] < 0) continue;
    const UserOutput* whole = &u;  // of which it is a view, through others
    for (bool found = true; found && whole->alias == ir::OutputAlias::kViewOfOutput;) {
      const auto base = std::find_if(outputs.begin(), outputs.end(),
                                     [&](const UserOutput& o) { return o.output == whole->alias_of; });
      found = base != outputs.end() && IsMadeAgain(*base);
      if (found) whole = &*base;
    }
    const bool of_input = whole->alias == ir::OutputAlias::kViewOfInput;
    if (of_input && joint.inputs[At(whole->alias_of)].mutated) continue;
    views.push_back({u.output, turns[0], of_input ? -1 : whole->alias_of});
  }
  return views;
}

}  // namespace framefuse
