#include "backends/graph/sized_plan.h"

#include <exception>
#include <utility>

#include "backends/graph/sized_graph.h"
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

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::Compile(Backend& backend, ir::Graph graph,
                                                         const BackendOptions& options) {
  Sizes hints;
  for (const ir::Symbol& s : graph.exprs.symbols()) hints.push_back(s.hint);
  if (hints.empty()) return CompileBy(backend, std::move(graph), options);
  std::shared_ptr<SizedPlan> plan(new SizedPlan(backend, std::move(graph), options));
  FF_ASSIGN_OR_RETURN(std::shared_ptr<Plan> first, plan->CompileFor(hints));
  plan->met_.push_front({hints, std::move(first)});
  plan->by_sizes_[hints] = plan->met_.begin();
  return plan;
}

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::CompileFor(absl::Span<const std::int64_t> symbols) const {
  return CompileBy(backend_, ir::WithSizes(graph_, symbols), options_);
}

absl::StatusOr<SizedPlan::Chosen> SizedPlan::Choose(absl::Span<const std::int64_t> symbols) const {
  const std::lock_guard lock(mutex_);
  const Sizes sizes(symbols.begin(), symbols.end());
  if (const auto known = by_sizes_.find(sizes); known != by_sizes_.end()) {
    met_.splice(met_.begin(), met_, known->second);
    Met& met = *known->second;
    if (met.plan == nullptr) {
      FF_ASSIGN_OR_RETURN(met.plan, CompileFor(symbols));
    }
    return Chosen{met.plan};
  }
  FF_RETURN_IF_ERROR(ir::CheckGuessed(ir::WithSizes(graph_, symbols)));
  met_.push_front({sizes, nullptr});
  by_sizes_[sizes] = met_.begin();
  if (met_.size() > kMostSizes) {
    by_sizes_.erase(met_.back().sizes);
    met_.pop_back();
  }
  if (general_ == nullptr) {
    FF_ASSIGN_OR_RETURN(general_, CompileBy(*FindBackend("aten"), graph_, options_));
  }
  return Chosen{general_, true};
}

absl::StatusOr<std::vector<at::Tensor>> SizedPlan::Run(absl::Span<const at::Tensor> inputs,
                                                       absl::Span<const std::int64_t> symbols) const {
  absl::StatusOr<Chosen> chosen = Choose(symbols);
  if (!chosen.ok()) {
    absl::Status status = chosen.status();
    MarkInputsUntouched(status);
    return status;
  }
  return chosen->plan->Run(inputs, chosen->general ? symbols : absl::Span<const std::int64_t>());
}

PlanExplanation SizedPlan::Explain() const {
  const std::lock_guard lock(mutex_);
  for (const Met& met : met_) {
    if (met.plan != nullptr) return met.plan->Explain();
  }
  return PlanExplanation();
}

}  // namespace framefuse
