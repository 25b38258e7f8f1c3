// SizedPlan: the plan of a graph with symbolic sizes: one for all sizes, and for sizes that come often a static one,
// as it would be without symbols. Each further one has to come more often: where many sizes take turns (a text that is
// generated) a plan for each costs more than it saves. Where the graph itself computes some sizes there is only the
// first.
// Metadata that was guessed when the graph was recorded (ir::Node::guessed) is checked for each new set of sizes, and
// of floats that sizes follow from. Invariant: thread-safe; keeps what belongs to the kMostSizes that came last.
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
  // What the backend refuses is refused when the graph is captured.
  static absl::StatusOr<std::shared_ptr<Plan>> Compile(Backend& backend, ir::Graph graph,
                                                       const BackendOptions& options);

  absl::StatusOr<std::vector<at::Tensor>> Run(absl::Span<const at::Tensor> inputs,
                                              absl::Span<std::int64_t> symbols) const override;
  PlanExplanation Explain() const override;

 private:
  SizedPlan(Backend& backend, ir::Graph graph, const BackendOptions& options);
  absl::StatusOr<std::shared_ptr<Plan>> CompileGeneral() const;
  absl::StatusOr<std::shared_ptr<Plan>> CompileFor(absl::Span<const std::int64_t> symbols) const;
  // Null: the one for all sizes.
  absl::StatusOr<std::shared_ptr<Plan>> Choose(absl::Span<const std::int64_t> symbols) const;

  static constexpr std::size_t kMostSizes = 256;
  static constexpr int kOften = 4;  // times this many, the n-th one
  using Sizes = std::vector<std::int64_t>;
  struct Met {
    Sizes sizes;
    int times = 0;
    std::shared_ptr<Plan> plan;  // null: not often yet, or refused
    bool refused = false;
  };

  Backend& backend_;
  const ir::Graph graph_;
  const BackendOptions options_;
  const bool guessed_;
  const bool guessed_of_floats_;  // what was guessed may be of sizes that follow from floats
  std::shared_ptr<Plan> general_;
  mutable std::mutex mutex_;
  mutable int static_plans_ = 0;  // ever tried
  mutable std::list<Met> met_;    // the last ones first
  mutable absl::flat_hash_map<Sizes, std::list<Met>::iterator> by_sizes_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_GRAPH_SIZED_PLAN_H_
