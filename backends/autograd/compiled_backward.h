// The backward half of a training plan: what is compiled once (BackwardPlan) and the autograd node that each call
// of the forward makes (CompiledBackward).
// Invariant: a node holds saved tensors as SavedVariables, so versions are checked and hooks run as in eager, and
// drops those that its run has used up with release_variables. Undefined tangents and gradients that nobody asks for
// select a variant of the backward that does not compute what depends on them only; variants are compiled at first use.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/version.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/autograd/partition.h"
#include "backends/autograd/tangent_use.h"
#include "backends/runtime/executable.h"

namespace framefuse {

using AutogradNodePtr = decltype(torch::autograd::Edge::function);

// torch 2.11 counts nodes with shared_ptr, 2.13 with intrusive_ptr.
template <typename NodeType, typename... Args>
AutogradNodePtr MakeAutogradNode(Args&&... args) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  return AutogradNodePtr(new NodeType(std::forward<Args>(args)...), torch::autograd::deleteNode);
#else
  return c10::make_intrusive<NodeType>(std::forward<Args>(args)...);
#endif
}

class BackwardPlan {
 public:
  // A backward for one set of gradients and of tangents that are defined.
  struct Variant {
    std::unique_ptr<Executable> executable;
    std::vector<std::int32_t> inputs;     // used inputs of Partitioned::backward, in order
    std::vector<std::int32_t> gradients;  // gradient of each output
    std::vector<ir::NodeIndex> made_by;   // for each output its node of graph(), kNoNode: none
    std::vector<std::int32_t> readers;    // its nodes of graph() that compute with tangents and read saved values
  };
  // All of it through autograd, from the graph's own inputs: for create_graph.
  struct Differentiable {
    std::unique_ptr<Executable> executable;
    std::vector<std::int32_t> inputs;     // used inputs: of the joint graph, tangents included
    std::vector<std::int32_t> saved;      // used saved values, after the inputs
    std::vector<std::int32_t> gradients;  // gradient of each output
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
  };
  Key AllInputs() const;
  absl::StatusOr<const Variant*> FindVariant(const Key& key) const;
  absl::StatusOr<const Differentiable*> FindDifferentiable(const Key& key) const;
  // Nodes of graph() that compute with these tangents and read saved values.
  std::vector<std::int32_t> Readers(const std::string& defined) const;

  const ir::Graph& joint() const { return joint_; }
  const ir::Graph& graph() const { return graph_; }
  const std::vector<SavedValue>& saved() const { return saved_; }
  const std::vector<std::int32_t>& tangents() const { return tangents_; }
  // Of a view: never defined, and only there for a pass to be cut at.
  bool IsOfView(std::size_t tangent) const;
  // Joint outputs: gradients of inputs, then those of outputs.
  const std::vector<std::int32_t>& gradients() const { return gradients_; }
  const std::vector<OutputGradient>& output_gradients() const { return output_gradients_; }
  std::size_t input_gradients() const { return gradients_.size() - output_gradients_.size(); }
  // Whether gradient g depends on tangent t.
  const TangentUse& use() const { return *use_; }
  bool Depends(std::size_t gradient, std::size_t tangent) const { return depends_[gradient][tangent]; }
  // Whether eager's pass from tangent t comes to the input of gradient g, be it without a gradient.
  bool Reaches(std::size_t gradient, std::size_t tangent) const;
  // Whether passes from different tangents may come to different inputs.
  bool reaches_apart() const { return reaches_apart_; }
  // When a pass from the defined tangents comes to the input of gradient g; negative: never, or not known.
  std::int32_t TurnOf(std::size_t gradient, const std::string& defined) const;
  // Inputs of the joint graph that only create_graph needs.
  const std::vector<std::int32_t>& recompute_inputs() const { return recompute_inputs_; }

 private:
  BackwardPlan() = default;
  absl::Status FindOutputGradients();
  std::vector<OutputGradient> CutBy(const Key& key) const;
  void FindDependences();
  void FindRecomputeInputs();
  // Values that do not change with a differentiable input: create_graph may take them as saved.
  std::vector<bool> ConstantValues() const;
  absl::StatusOr<std::unique_ptr<Variant>> CompileVariant(const Key& key, const ExecutableFactory& factory) const;
  absl::StatusOr<std::unique_ptr<Differentiable>> CompileDifferentiable(const Key& key) const;

  ir::Graph joint_;
  ir::Graph graph_;
  std::vector<SavedValue> saved_;
  std::vector<std::int32_t> tangents_;
  std::vector<std::int32_t> gradients_;
  std::vector<OutputGradient> output_gradients_;
  std::vector<std::vector<bool>> depends_;
  bool reaches_apart_ = false;
  std::unique_ptr<TangentUse> use_;
  std::vector<std::int32_t> recompute_inputs_;
  ExecutableFactory factory_;
  BackendOptions options_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Variant>> variants_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Variant>> uncompiled_;  // first asked for in a recording
  mutable absl::flat_hash_map<std::string, std::unique_ptr<Differentiable>> differentiable_;
};

// What the nodes of one forward run share.
struct BackwardRuns {
  static constexpr int kNever = -2;
  std::mutex mutex;
  std::vector<int> released_in;       // by node of the backward graph: the backward pass in which its saved values went
  std::map<int, std::string> cut_in;  // by backward pass: where it is cut (BackwardPlan::Key), '?' where not decided
};

class CompiledBackward final : public torch::autograd::Node {
 public:
  // What a run used up: nodes of the backward graph, and everything else.
  struct Used {
    std::vector<std::int32_t> readers;
    bool everything = true;
  };

  // The node's input i is the gradient of output outputs[i]: of tangent outputs[i], or of an output without one.
  static AutogradNodePtr Create(std::shared_ptr<const BackwardPlan> plan, torch::autograd::edge_list edges,
                                std::vector<std::int32_t> outputs, std::shared_ptr<BackwardRuns> runs) {
    return MakeAutogradNode<CompiledBackward>(std::move(plan), std::move(edges), std::move(outputs), std::move(runs));
  }
  static CompiledBackward* From(const AutogradNodePtr& node) { return static_cast<CompiledBackward*>(node.get()); }

  CompiledBackward(std::shared_ptr<const BackwardPlan> plan, torch::autograd::edge_list edges,
                   std::vector<std::int32_t> outputs, std::shared_ptr<BackwardRuns> runs);
  ~CompiledBackward() override;
  CompiledBackward(const CompiledBackward&) = delete;
  CompiledBackward& operator=(const CompiledBackward&) = delete;

  // Called once by the forward: `inputs` of the joint graph without tangents, before any is written; then `outputs` of
  // the forward graph with their history set, of which the first `visible_outputs` may be written by the user later.
  void SaveInputs(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols);
  void SaveOutputs(absl::Span<const at::Tensor> outputs, std::size_t visible_outputs);

  // One entry for each gradient of the plan; key.defined says which tangents are.
  torch::autograd::variable_list Gradients(torch::autograd::variable_list tangents, const BackwardPlan::Key& key,
                                           Used* used);
  // In the backward pass under way. `last`: nothing else of the pass needs what is saved here.
  void Release(const Used& used, bool last);

  std::string name() const override { return "CompiledFunctionBackward"; }
  void release_variables() override { Release(used_, /*last=*/true); }
  // Whether in eager a pass that comes to this input comes to what is behind this edge.
  bool Reaches(std::size_t edge, std::size_t input) const;
  // Whether passes from different outputs may come to different inputs.
  bool ReachesApart() const { return outputs_.size() > 1 && plan_->reaches_apart(); }
  static bool AnyReachesApart() { return reach_apart_ > 0; }  // of all there are

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  torch::autograd::variable_list RunVariant(torch::autograd::variable_list tangents, const BackwardPlan::Key& key,
                                            Used* used, std::unique_lock<std::mutex>* lock);
  std::vector<std::size_t> EarlyOutputs(const BackwardPlan::Variant& variant, const std::string& defined) const;
  // The first node of the pass whose saved values an earlier pass has used up; kNoNode: none.
  ir::NodeIndex FirstUsedUp(const BackwardPlan::Variant& variant) const;
  void AccumulateBefore(ir::NodeIndex node, const BackwardPlan::Variant& variant,
                        torch::autograd::variable_list tangents, const BackwardPlan::Key& key);
  // What the variant reads of saved values, in its order; or the error of the one that the first node reads that fails.
  struct Unpacked {
    std::vector<at::Tensor> saved;
    ir::NodeIndex failed = 0;
    std::exception_ptr error;
  };
  Unpacked UnpackFor(const BackwardPlan::Variant& variant);
  torch::autograd::variable_list Execute(const BackwardPlan::Variant& variant, std::vector<at::Tensor> saved,
                                         torch::autograd::variable_list tangents, absl::Span<const std::size_t> early);
  torch::autograd::variable_list RunDifferentiable(torch::autograd::variable_list tangents,
                                                   const BackwardPlan::Key& key, Used* used);
  at::Tensor ZeroTangent(std::size_t tangent) const;
  at::Tensor PrepareTangent(std::size_t tangent, at::Tensor gradient) const;
  at::Tensor Unpack(const torch::autograd::SavedVariable& saved);
  // This node does not make the hooks run of leaves that no defined gradient leads to.
  void PassOverUnreached(const std::string& defined);
  // When a pass from the defined tangents comes to what is behind each edge.
  std::vector<std::int32_t> Turns(const std::string& defined) const;
  std::string WantedGradients(const std::string& defined) const;
  std::string CutOfBackward() const;  // as the gates of this pass have decided

  std::shared_ptr<const BackwardPlan> plan_;
  std::vector<std::int32_t> outputs_;
  std::shared_ptr<BackwardRuns> runs_;  // shared with the run's other nodes
  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<torch::autograd::SavedVariable> inputs_;  // for create_graph: inputs that are not saved already
  std::vector<std::int64_t> symbols_;
  Used used_;  // by the last run
  static inline std::atomic<std::int64_t> reach_apart_ = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_
