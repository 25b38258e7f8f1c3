// The backward half of a training plan: what is compiled once (BackwardPlan) and the autograd node that each call
// of the forward makes (CompiledBackward).
// Invariant: a node holds saved tensors as SavedVariables, so versions are checked and hooks run as in eager, and
// drops those that its run has used up with release_variables. Undefined tangents and gradients that nobody asks for
// select a variant of the backward that does not compute what depends on them only; variants are compiled at first use.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/autograd/partition.h"
#include "backends/autograd/tangent_use.h"
#include "backends/runtime/executable.h"

namespace framefuse {

using AutogradNodePtr = decltype(torch::autograd::Edge::function);

class BackwardPlan {
 public:
  // A backward for one set of gradients and of tangents that are defined.
  struct Variant {
    std::unique_ptr<Executable> executable;
    std::vector<std::int32_t> inputs;     // used inputs of Partitioned::backward, in order
    std::vector<std::int32_t> gradients;  // gradient of each output
    std::vector<std::int32_t> readers;    // its nodes of graph() that compute with tangents and read saved values
  };
  // All of it through autograd, from the graph's own inputs: for create_graph.
  struct Differentiable {
    std::unique_ptr<Executable> executable;
    std::vector<std::int32_t> inputs;     // used inputs: of the joint graph, tangents included
    std::vector<std::int32_t> saved;      // used saved values, after the inputs
    std::vector<std::int32_t> gradients;  // gradient of each output
  };

  static absl::StatusOr<std::unique_ptr<BackwardPlan>> Create(ir::Graph joint, const Partitioned& parts,
                                                              ExecutableFactory factory, const BackendOptions& options);

  // Keys: one character for each gradient, '1' wanted, and for each tangent, '1' defined.
  absl::StatusOr<const Variant*> FindVariant(const std::string& gradients, const std::string& defined) const;
  absl::StatusOr<const Differentiable*> FindDifferentiable(const std::string& gradients) const;
  // Nodes of graph() that compute with these tangents and read saved values.
  std::vector<std::int32_t> Readers(const std::string& defined) const;

  const ir::Graph& joint() const { return joint_; }
  const ir::Graph& graph() const { return graph_; }
  const std::vector<SavedValue>& saved() const { return saved_; }
  const std::vector<std::int32_t>& tangents() const { return tangents_; }
  const std::vector<std::int32_t>& gradients() const { return gradients_; }
  // Whether gradient g depends on tangent t.
  const TangentUse& use() const { return *use_; }
  bool Depends(std::size_t gradient, std::size_t tangent) const { return depends_[gradient][tangent]; }
  // Inputs of the joint graph that only create_graph needs.
  const std::vector<std::int32_t>& recompute_inputs() const { return recompute_inputs_; }

 private:
  BackwardPlan() = default;
  void FindDependences();
  void FindRecomputeInputs();
  // Values that do not change with a differentiable input: create_graph may take them as saved.
  std::vector<bool> ConstantValues() const;
  absl::StatusOr<std::unique_ptr<Variant>> CompileVariant(const std::string& gradients,
                                                          const std::string& defined) const;
  absl::StatusOr<std::unique_ptr<Differentiable>> CompileDifferentiable(const std::string& gradients) const;

  ir::Graph joint_;
  ir::Graph graph_;
  std::vector<SavedValue> saved_;
  std::vector<std::int32_t> tangents_;
  std::vector<std::int32_t> gradients_;
  std::vector<std::vector<bool>> depends_;
  std::unique_ptr<TangentUse> use_;
  std::vector<std::int32_t> recompute_inputs_;
  ExecutableFactory factory_;
  BackendOptions options_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Variant>> variants_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Differentiable>> differentiable_;
};

// What the nodes of one forward run have used up.
struct BackwardRuns {
  static constexpr int kNever = -2;
  std::mutex mutex;
  std::vector<int> released_in;  // by node of the backward graph: the backward pass in which its saved values went
};

class CompiledBackward final : public torch::autograd::Node {
 public:
  // The node's input i is the gradient of output outputs[i]: of tangent outputs[i], or of an output without one.
  static AutogradNodePtr Create(std::shared_ptr<const BackwardPlan> plan, torch::autograd::edge_list edges,
                                std::vector<std::int32_t> outputs, std::shared_ptr<BackwardRuns> runs);
  static CompiledBackward* From(const AutogradNodePtr& node) { return static_cast<CompiledBackward*>(node.get()); }

  CompiledBackward(std::shared_ptr<const BackwardPlan> plan, torch::autograd::edge_list edges,
                   std::vector<std::int32_t> outputs, std::shared_ptr<BackwardRuns> runs);

  // Called once by the forward: `inputs` of the joint graph without tangents, `outputs` of the forward graph with
  // their history set; the first `visible_outputs` may be written by the user later.
  void Save(absl::Span<const at::Tensor> inputs, absl::Span<const at::Tensor> outputs, std::size_t visible_outputs,
            absl::Span<const std::int64_t> symbols);

  std::string name() const override { return "CompiledFunctionBackward"; }
  void release_variables() override;

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  torch::autograd::variable_list RunVariant(torch::autograd::variable_list tangents, const std::string& wanted,
                                            const std::string& defined);
  void CheckRunsOnce(const BackwardPlan::Variant& variant) const;
  torch::autograd::variable_list RunDifferentiable(torch::autograd::variable_list tangents, const std::string& wanted,
                                                   const std::string& defined);
  at::Tensor ZeroTangent(std::size_t tangent) const;
  at::Tensor PrepareTangent(std::size_t tangent, at::Tensor gradient) const;
  at::Tensor Unpack(const torch::autograd::SavedVariable& saved);
  // Leaves that no defined gradient leads to: their hooks do not run in this pass.
  void SilenceUnreached(const std::string& defined) const;
  std::string WantedGradients(const std::string& defined) const;

  std::shared_ptr<const BackwardPlan> plan_;
  std::vector<std::int32_t> outputs_;
  std::shared_ptr<BackwardRuns> runs_;  // shared with the nodes of the run's other outputs
  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<torch::autograd::SavedVariable> inputs_;  // for create_graph: inputs that are not saved already
  std::vector<std::int64_t> symbols_;
  std::vector<std::int32_t> last_readers_;  // nodes of the backward graph that the last run used up
  bool used_all_ = true;                    // and everything else
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_
