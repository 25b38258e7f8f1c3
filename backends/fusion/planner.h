// Planner: turns a graph into the steps of a FusedExecutable. Groups become kernels; one without a kernel form falls
// back to ATen operators, and so do nodes that no group holds: neighbours among them are one step. Invariant: each
// value that another step or the caller reads is made by one step.
#ifndef FRAMEFUSE_BACKENDS_FUSION_PLANNER_H_
#define FRAMEFUSE_BACKENDS_FUSION_PLANNER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/fusion/places.h"
#include "backends/fusion/step.h"

namespace framefuse::fusion {

class Planner {
 public:
  Planner(ir::Graph* graph, const BackendOptions& options);

  bool complete() const;
  absl::StatusOr<std::vector<std::unique_ptr<Step>>> Plan();

 private:
  // `results`: what others read of the group.
  absl::StatusOr<std::unique_ptr<Step>> MakeGroupStep(const Group& group, const std::vector<ir::ValueId>& results);
  // Results that these items, one step, are responsible for and that others read from memory.
  std::vector<ir::ValueId> MadeFor(const std::set<std::size_t>& items) const;
  bool IsReadOutside(const std::set<std::size_t>& items, ir::NodeIndex maker, ir::ValueId v) const;
  // One ATen step of the loose items, then one for each sink among them.
  absl::Status Flush(std::vector<std::unique_ptr<Step>>* steps);
  absl::Status AddAtenStep(const std::vector<ir::NodeIndex>& nodes, const std::set<std::size_t>& items,
                           std::vector<std::unique_ptr<Step>>* steps);
  // Sinks become steps of their own, with the views that they read and that are made of them.
  void FindSinks();
  bool IsLooseView(std::size_t item) const;
  std::string OperatorNames(const std::vector<ir::NodeIndex>& nodes) const;

  ir::Graph& g_;
  const BackendOptions& options_;
  Schedule schedule_;
  Places places_;
  std::vector<ir::NodeIndex> definitions_;
  std::vector<std::set<std::size_t>> items_of_user_;
  std::set<ir::ValueId> outputs_;
  std::vector<std::size_t> loose_;
  struct Sink {
    std::vector<ir::NodeIndex> nodes;  // of its step
    std::set<std::size_t> items;       // that the step stands for
  };
  std::map<std::size_t, Sink> sinks_;  // by item
  std::set<std::size_t> elsewhere_;    // items: views that only sinks read, or that are made of them
};

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_PLANNER_H_
