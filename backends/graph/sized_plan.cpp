#include "backends/graph/sized_plan.h"

#include <ATen/SavedTensorHooks.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "backends/graph/sized_graph.h"
#include "common/logging.h"
#include "common/status.h"

namespace framefuse {
namespace {

absl::StatusOr<std::shared_ptr<Plan>> CompileBy(Backend& backend, ir::Graph graph, const BackendOptions& options) {
  try {
    return backend.Compile(std::move(graph), options);
  } catch (...) {  // torch's own code raises where a backend asks it for what there is not
    return TorchErrorStatus(std::current_exception(), "the backend");
  }
}

bool UsesSymbols(const ir::ExprTable& exprs, bool integers_only) {
  for (ir::ExprId e = 0; e < exprs.size(); ++e) {
    const bool counts = !integers_only || exprs[e].type == ir::NumberType::kInt;
    if (exprs[e].kind == ir::ExprKind::kSymbol && counts) return true;
  }
  return false;
}

}  // namespace

SizedPlan::SizedPlan(Backend& backend, ir::Graph graph, const BackendOptions& options)
    : backend_(backend),
      graph_(std::move(graph)),
      options_(options),
      guessed_(std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const ir::Node& n) { return n.guessed; })),
      guessed_of_floats_(guessed_ && ir::HasSizesOfFloats(graph_.exprs)) {}

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::Compile(Backend& backend, ir::Graph graph,
                                                         const BackendOptions& options) {
  if (!UsesSymbols(graph.exprs, false)) return CompileBy(backend, std::move(graph), options);
  std::shared_ptr<SizedPlan> plan(new SizedPlan(backend, std::move(graph), options));
  FF_ASSIGN_OR_RETURN(plan->general_, plan->CompileGeneral());
  const bool has_sizes = UsesSymbols(plan->graph_.exprs, true) || plan->guessed_of_floats_;
  const bool one_for_all = !has_sizes || plan->graph_.has_unbacked();
  return one_for_all ? plan->general_ : std::shared_ptr<Plan>(plan);
}

// A backend that cannot do without numbers may be able to with them: until then operator by operator.
absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::CompileGeneral() const {
  absl::StatusOr<std::shared_ptr<Plan>> general = CompileBy(backend_, graph_, options_);
  if (general.ok()) return general;
  FF_LOG(kFusion) << "operator by operator for sizes that did not come often: " << MessageOf(general.status());
  Sizes hints;
  for (const ir::Symbol& s : graph_.exprs.symbols()) hints.push_back(s.hint);
  if (!graph_.has_unbacked()) FF_RETURN_IF_ERROR(CompileFor(hints).status());
  return CompileBy(*FindBackend("aten"), graph_, options_);
}

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::CompileFor(absl::Span<const std::int64_t> symbols) const {
  return CompileBy(backend_, ir::WithSizes(graph_, symbols), options_);
}

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::Choose(absl::Span<const std::int64_t> symbols) const {
  const std::lock_guard lock(mutex_);
  Sizes sizes(symbols.begin(), symbols.end());
  for (std::size_t i = 0; !guessed_of_floats_ && i < sizes.size(); ++i) {
    if (graph_.exprs.symbols()[i].type != ir::NumberType::kInt) sizes[i] = 0;
  }
  auto known = by_sizes_.find(sizes);
  if (known == by_sizes_.end()) {
    if (guessed_) FF_RETURN_IF_ERROR(ir::CheckGuessed(ir::WithSizes(graph_, symbols)));
    met_.push_front({sizes, 0, nullptr, false});
    known = by_sizes_.emplace(sizes, met_.begin()).first;
    if (met_.size() > kMostSizes) {
      by_sizes_.erase(met_.back().sizes);
      met_.pop_back();
    }
  }
  Met& met = *known->second;
  met_.splice(met_.begin(), met_, known->second);
  // A checkpoint runs the graph again, and tells what it saves by its order, which goes by the plan.
  if (at::SavedTensorDefaultHooks::get_hooks().has_value()) return nullptr;
  if (met.plan == nullptr && ++met.times >= kOften * (static_plans_ + 1) && !met.refused) {
    ++static_plans_;
    absl::StatusOr<std::shared_ptr<Plan>> plan = CompileFor(symbols);
    if (plan.ok()) {
      met.plan = *std::move(plan);
    } else {
      met.refused = true;
      FF_LOG(kFusion) << "no kernels for these sizes alone: " << MessageOf(plan.status());
    }
  }
  return met.plan;
}

absl::StatusOr<std::vector<at::Tensor>> SizedPlan::Run(absl::Span<const at::Tensor> inputs,
                                                       absl::Span<std::int64_t> symbols) const {
  absl::StatusOr<std::shared_ptr<Plan>> chosen = Choose(symbols);
  if (!chosen.ok()) {
    absl::Status status = chosen.status();
    MarkInputsUntouched(status);
    return status;
  }
  return (*chosen == nullptr ? general_ : *chosen)->Run(inputs, symbols);
}

PlanExplanation SizedPlan::Explain() const { return general_->Explain(); }

}  // namespace framefuse
