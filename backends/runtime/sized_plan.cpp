#include "backends/runtime/sized_plan.h"

#include <exception>
#include <utility>

#include "backends/graph/sized_graph.h"

namespace framefuse {

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::Compile(Backend& backend, ir::Graph graph,
                                                         const BackendOptions& options) {
  Sizes hints;
  for (const ir::Symbol& s : graph.exprs.symbols()) hints.push_back(s.hint);
  if (hints.empty()) return backend.Compile(std::move(graph), options);
  std::shared_ptr<SizedPlan> plan(new SizedPlan(backend, std::move(graph), options));
  const absl::StatusOr<std::shared_ptr<Plan>> first = plan->PlanFor(hints);
  if (!first.ok()) return first.status();
  return plan;
}

absl::StatusOr<std::shared_ptr<Plan>> SizedPlan::PlanFor(absl::Span<const std::int64_t> symbols) const {
  const std::lock_guard lock(mutex_);
  const auto known = by_sizes_.find(Sizes(symbols.begin(), symbols.end()));
  if (known != by_sizes_.end()) {
    plans_.splice(plans_.begin(), plans_, known->second);
    return known->second->plan;
  }
  absl::StatusOr<std::shared_ptr<Plan>> made = absl::UnknownError("not compiled");
  try {
    made = backend_.Compile(ir::WithSizes(graph_, symbols), options_);
  } catch (...) {  // torch's own code raises where a backend asks it for what there is not
    made = TorchErrorStatus(std::current_exception(), "the backend");
  }
  if (!made.ok()) return made;
  plans_.push_front({Sizes(symbols.begin(), symbols.end()), *made});
  by_sizes_[plans_.front().sizes] = plans_.begin();
  if (plans_.size() > kMostPlans) {
    by_sizes_.erase(plans_.back().sizes);
    plans_.pop_back();
  }
  return made;
}

absl::StatusOr<std::vector<at::Tensor>> SizedPlan::Run(absl::Span<const at::Tensor> inputs,
                                                       absl::Span<const std::int64_t> symbols) const {
  absl::StatusOr<std::shared_ptr<Plan>> plan = PlanFor(symbols);
  if (!plan.ok()) {
    absl::Status status = plan.status();
    MarkInputsUntouched(status);
    return status;
  }
  return (*plan)->Run(inputs, {});
}

PlanExplanation SizedPlan::Explain() const {
  const std::lock_guard lock(mutex_);
  return plans_.empty() ? PlanExplanation() : plans_.front().plan->Explain();
}

}  // namespace framefuse
