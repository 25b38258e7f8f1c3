// SizedPlan: the plan of a graph with symbolic sizes. Sizes that are met for the first time run operator by operator,
// in a plan for all sizes; for those that come again a static plan is compiled, as it would be without symbols.
// Metadata that was guessed when the graph was recorded (ir::Node::guessed) is checked for each new set of sizes.
// Invariant: thread-safe; keeps what belongs to the kMostSizes that came last.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_SIZED_PLAN_H_
#define FRAMEFUSE_BACKENDS_GRAPH_SIZED_PLAN_H_

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
  // A plan, and whether it is the one for all sizes.
  struct Chosen {
    std::shared_ptr<Plan> plan;
    bool general = false;
  };
  absl::StatusOr<Chosen> Choose(absl::Span<const std::int64_t> symbols) const;
  absl::StatusOr<std::shared_ptr<Plan>> CompileFor(absl::Span<const std::int64_t> symbols) const;

  static constexpr std::size_t kMostSizes = 256;
  using Sizes = std::vector<std::int64_t>;
  struct Met {
    Sizes sizes;
    std::shared_ptr<Plan> plan;  // null: met once
  };

  Backend& backend_;
  const ir::Graph graph_;
  const BackendOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Plan> general_;  // null: not made yet
  mutable std::list<Met> met_;             // the last ones first
  mutable absl::flat_hash_map<Sizes, std::list<Met>::iterator> by_sizes_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_GRAPH_SIZED_PLAN_H_
