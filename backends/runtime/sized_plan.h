// SizedPlan: the plan of a graph with symbolic sizes. It is one static plan for each set of sizes, compiled when that
// is first met. Kernels are shared as those of any plans are (docs/architecture/caching_and_limits.md).
// Invariant: thread-safe; keeps the kMostPlans that ran last.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_SIZED_PLAN_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_SIZED_PLAN_H_

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/backend.h"

namespace framefuse {

class SizedPlan final : public Plan {
 public:
  // For the sizes at hand at once: what the backend refuses is refused when the graph is captured.
  static absl::StatusOr<std::shared_ptr<Plan>> Compile(Backend& backend, ir::Graph graph,
                                                       const BackendOptions& options);

  absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> inputs,
                                              absl::Span<const std::int64_t> symbols) const override;
  PlanExplanation Explain() const override;

 private:
  SizedPlan(Backend& backend, ir::Graph graph, const BackendOptions& options)
      : backend_(backend), graph_(std::move(graph)), options_(options) {}
  absl::StatusOr<std::shared_ptr<Plan>> PlanFor(absl::Span<const std::int64_t> symbols) const;

  static constexpr std::size_t kMostPlans = 256;
  using Sizes = std::vector<std::int64_t>;
  struct Made {
    Sizes sizes;
    std::shared_ptr<Plan> plan;
  };

  Backend& backend_;
  const ir::Graph graph_;
  const BackendOptions options_;
  mutable std::mutex mutex_;
  mutable std::list<Made> plans_;  // the last used first
  mutable absl::flat_hash_map<Sizes, std::list<Made>::iterator> by_sizes_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_SIZED_PLAN_H_
