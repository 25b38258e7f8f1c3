// BackwardRun: what the autograd nodes of one forward run share: what it saved, what passes have used up, and what has
// come to its outputs in a pass under way.
// Invariant: saved tensors are SavedVariables, so versions are checked and hooks run as in eager; those that a pass has
// used up are dropped by Release.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_RUN_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_RUN_H_

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "backends/autograd/backward_plan.h"
#include "backends/autograd/gradient_targets.h"

namespace framefuse {

class CompiledBackward;

class BackwardRun : public std::enable_shared_from_this<BackwardRun> {
 public:
  // What a computation used up: nodes of the backward graph, and everything else.
  struct Used {
    std::vector<std::int32_t> readers;
    bool everything = true;
  };
  // What has come so far in a backward pass, and what was computed of it. One thread runs nodes that compute together.
  struct Pass {
    enum class State : std::uint8_t { kWaiting, kTaken, kComputed };
    torch::autograd::variable_list tangents;
    std::string defined;                       // tangents that have come, also if they are used up since
    torch::autograd::variable_list gradients;  // until the node takes them that leads there
    std::vector<State> states;                 // of the nodes, by place
    std::exception_ptr error;                  // of what was computed, and
    std::size_t failing = 0;                   // for how many nodes that are still to run
  };
  // Nodes of a pass whose gradients nobody has computed yet.
  struct Waiting {
    std::vector<CompiledBackward*> ready;  // for each all has come that will come
    bool others = false;
  };

  explicit BackwardRun(std::shared_ptr<const BackwardPlan> plan);

  const BackwardPlan& plan() const { return *plan_; }
  bool HasSeveralNodes() const { return plan_->input_classes().size() > 1; }
  // Whether they compute together.
  bool IsJoint() const { return HasSeveralNodes() && plan_->is_on_one_device(); }

  // Called once by the forward: `inputs` of the joint graph without tangents, before any is written; then `outputs` of
  // the forward graph with their history set, of which the first `visible_outputs` may be written by the user later.
  // `only`: the one node, if it is an output's grad_fn itself.
  void SaveInputs(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols);
  void SaveOutputs(absl::Span<const at::Tensor> outputs, std::size_t visible_outputs,
                   const torch::autograd::Node* only);

  // One entry for each gradient of the plan; key.defined says which tangents are.
  torch::autograd::variable_list Gradients(torch::autograd::variable_list tangents, const BackwardPlan::Key& key,
                                           const GradientTargets& targets, Used* used);
  // Those of inputs, in memory of their own; hooks of leaves are called in eager's order.
  torch::autograd::variable_list InputGradients(torch::autograd::variable_list tangents, std::string defined,
                                                std::string wanted, const GradientTargets& targets, Used* used);
  // In the backward pass under way. `last`: nothing else of the pass needs what is saved here.
  void Release(const Used& used, bool last);
  // Where the pass is cut of all places; each of `places` is decided once.
  std::string DecideCut(const std::vector<std::size_t>& places, absl::FunctionRef<bool(std::size_t k)> is_observed);

  // A node is there from Add to Remove.
  void Add(CompiledBackward& node);
  void Remove(const CompiledBackward& node);
  // Of the pass under way.
  Pass& PassOfNow();
  Waiting WaitingIn(const Pass& pass, CompiledBackward& running);
  // `node` has computed alone in the pass under way. Whether no other is still to do so.
  bool EndsPass(CompiledBackward& node);

 private:
  static constexpr int kNever = -2;
  // What the variant reads of saved values, in its order; or the error of the one that the first node reads that fails.
  struct Unpacked {
    std::vector<at::Tensor> saved;
    ir::NodeIndex failed = 0;
    std::exception_ptr error;
  };

  torch::autograd::variable_list RunVariant(torch::autograd::variable_list tangents, const BackwardPlan::Key& key,
                                            const GradientTargets& targets, Used* used,
                                            std::unique_lock<std::mutex>* lock);
  std::vector<std::size_t> EarlyOutputs(const BackwardPlan::Variant& variant, const std::string& defined,
                                        const GradientTargets& targets) const;
  // The first node of the pass whose saved values an earlier pass has used up; kNoNode: none.
  ir::NodeIndex FirstUsedUp(const BackwardPlan::Variant& variant);
  void AccumulateBefore(ir::NodeIndex node, const BackwardPlan::Variant& variant,
                        torch::autograd::variable_list tangents, const BackwardPlan::Key& key,
                        const GradientTargets& targets);
  Unpacked UnpackFor(const BackwardPlan::Variant& variant, const GradientTargets& targets) const;
  torch::autograd::variable_list Execute(const BackwardPlan::Variant& variant, std::vector<at::Tensor> saved,
                                         torch::autograd::variable_list tangents, const GradientTargets& targets,
                                         absl::Span<const std::size_t> early) const;
  torch::autograd::variable_list RunDifferentiable(torch::autograd::variable_list tangents,
                                                   const BackwardPlan::Key& key, const GradientTargets& targets,
                                                   Used* used) const;
  at::Tensor ZeroTangent(std::size_t tangent) const;
  at::Tensor PrepareTangent(std::size_t tangent, at::Tensor gradient) const;
  // When a pass from the defined tangents comes to the input of each gradient.
  std::vector<std::int32_t> Turns(const std::string& defined) const;
  std::string CutOfBackward();  // as the gates of this pass have decided

  const std::shared_ptr<const BackwardPlan> plan_;
  std::mutex running_;
  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<torch::autograd::SavedVariable> inputs_;  // for create_graph: inputs that are not saved already
  std::vector<std::int64_t> symbols_;
  std::mutex mutex_;                      // of what follows
  std::vector<int> released_in_;          // by node of the backward graph: the pass in which its saved values went
  std::map<int, std::string> cut_in_;     // by pass: where it is cut (BackwardPlan::Key), '?' where not decided
  std::map<int, Pass> passes_;            // of several nodes
  std::vector<CompiledBackward*> nodes_;  // by place; null: none
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_RUN_H_
