// BackwardPlan: the backward half of a training plan, compiled once. Undefined tangents and gradients that nobody asks
// for select a variant of the backward that does not compute what depends on them only; variants are compiled at first
// use.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_PLAN_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_PLAN_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/autograd/partition.h"
#include "backends/autograd/tangent_use.h"
#include "backends/runtime/executable.h"

namespace framefuse {

class DifferentiablePlans;

class BackwardPlan {
 public:
  // A backward for one set of gradients and of tangents that are defined.
  struct Variant {
    std::unique_ptr<Executable> executable;
    std::vector<std::int32_t> inputs;     // used inputs of Partitioned::backward, in order
    std::vector<std::int32_t> gradients;  // gradient of each output
    std::vector<ir::NodeIndex> made_by;   // for each output its node of graph(), kNoNode: none
    // Nodes of graph() that compute with tangents and read saved values, of all of eager's nodes that the pass runs.
    std::vector<std::int32_t> readers;
    std::vector<std::size_t> looked_at;  // saved values that those read, and nothing here
  };
  // The gradient that reaches an output with which others were computed. A pass may be cut at such an output: what was
  // computed with it is then differentiated as far as there, and the rest from what arrives there in all.
  struct OutputGradient {
    std::size_t gradient = 0;  // in gradients()
    std::size_t tangent = 0;
  };

  static absl::StatusOr<std::unique_ptr<BackwardPlan>> Create(ir::Graph joint, const Partitioned& parts,
                                                              ExecutableFactory factory, const BackendOptions& options);

  // One character for each gradient, '1' wanted, for each tangent, '1' defined, and for each of output_gradients(),
  // '1' cut there (empty: nowhere).
  struct Key {
    std::string wanted;
    std::string defined;
    std::string cut;
    std::string Name() const { return absl::StrCat(wanted, "|", defined, "|", cut); }
  };
  Key AllInputs() const;
  absl::StatusOr<const Variant*> FindVariant(const Key& key) const;
  const DifferentiablePlans& differentiable() const { return *differentiable_; }
  // Readers of the variant, which is not compiled for that.
  absl::StatusOr<std::vector<std::int32_t>> ReadersFor(const Key& key) const;

  // Of the grad_fn of the output with this tangent: eager's.
  std::string NameOf(std::size_t tangent) const;
  const ir::Graph& joint() const { return joint_; }
  const ir::Graph& graph() const { return graph_; }
  const std::vector<SavedValue>& saved() const { return saved_; }
  const std::vector<std::int32_t>& tangents() const { return tangents_; }
  // Of a view: never defined, and only there for a pass to be cut at.
  bool IsOfView(std::size_t tangent) const;
  // Joint outputs to whose nodes a second derivative may come: those of the tangents, then views without one.
  const std::vector<std::int32_t>& results() const { return results_; }
  // Joint outputs: gradients of inputs, then those of outputs.
  const std::vector<std::int32_t>& gradients() const { return gradients_; }
  const std::vector<OutputGradient>& output_gradients() const { return output_gradients_; }
  std::size_t input_gradients() const { return gradients_.size() - output_gradients_.size(); }
  // Whether gradient g depends on tangent t.
  const TangentUse& use() const { return *use_; }
  bool Depends(std::size_t gradient, std::size_t tangent) const { return depends_[gradient][tangent]; }
  // Whether eager's pass from tangent t comes to the input of gradient g, be it without a gradient.
  bool Reaches(std::size_t gradient, std::size_t tangent) const;
  // Inputs that the same outputs reach: gradients, and tangents of outputs that are no views. No class is empty, but
  // the only one may be reached by nothing, and then has all gradients.
  struct InputClass {
    std::vector<std::int32_t> gradients;
    std::vector<std::int32_t> tangents;
  };
  const std::vector<InputClass>& input_classes() const { return input_classes_; }
  // Whether views of inputs are among the results, and when a pass comes to them.
  bool HasViewsOfInputs() const;
  // Whether all tangents but those of views are on one device.
  bool is_on_one_device() const { return is_on_one_device_; }
  // When a pass from the defined tangents comes to the input of gradient g; negative: never, or not known.
  std::int32_t TurnOf(std::size_t gradient, const std::string& defined) const;
  // When a pass comes to the output of a tangent, and runs a node of graph(); negative: not known.
  std::int32_t TurnOfOutput(std::size_t tangent) const;
  std::int64_t TurnOfNode(ir::NodeIndex node) const;
  // The first node of the same autograd node of eager's, which fails as a whole.
  ir::NodeIndex FirstOfTurn(ir::NodeIndex node) const;
  std::vector<OutputGradient> CutBy(const Key& key) const;
  // Where a graph is cut at an output.
  struct CutPoint {
    std::size_t output = 0;              // of the graph: the gradient that reaches the place
    ir::ValueId tangent = ir::kNoValue;  // what nodes after it read instead
  };
  static absl::Status CutAt(ir::Graph& g, const std::vector<CutPoint>& places);
  ~BackwardPlan();

 private:
  BackwardPlan();
  void FindResults();
  absl::Status FindOutputGradients();
  void FindDependences();
  void FindInputClasses();
  // What is left of graph() for a variant.
  struct Reduced {
    ir::Graph graph;
    std::vector<ir::ValueId> roots;
    std::vector<std::int32_t> gradients;
    std::vector<bool> needed;  // by node
    std::vector<std::int32_t> readers;
  };
  absl::StatusOr<Reduced> Reduce(const Key& key) const;
  static std::vector<std::int32_t> ReadersAmong(const std::vector<ir::Node>& nodes, const std::vector<bool>& needed,
                                                const TangentUse& use, const std::string& defined);
  absl::StatusOr<std::unique_ptr<Variant>> CompileVariant(const Key& key, const ExecutableFactory& factory) const;

  ir::Graph joint_;
  ir::Graph graph_;
  std::vector<SavedValue> saved_;
  std::vector<std::int32_t> tangents_;
  std::vector<std::int32_t> results_;
  std::vector<std::int32_t> gradients_;
  std::vector<OutputGradient> output_gradients_;
  std::vector<std::vector<bool>> depends_;
  std::vector<InputClass> input_classes_;
  bool is_on_one_device_ = true;
  std::unique_ptr<TangentUse> use_;
  std::unique_ptr<DifferentiablePlans> differentiable_;
  ExecutableFactory factory_;
  BackendOptions options_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Variant>> variants_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Variant>> uncompiled_;  // first asked for in a recording
  mutable absl::flat_hash_map<std::string, std::vector<std::int32_t>> readers_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_PLAN_H_
