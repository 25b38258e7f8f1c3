// BackwardRun: what the autograd nodes of one forward run share: what it saved, what passes have used up, and what has
// come to its outputs in a pass under way.
// Invariant: saved tensors are SavedVariables, so versions are checked and hooks run as in eager; those that a pass has
// used up are dropped by Release.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_RUN_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_RUN_H_

#include <torch/csrc/autograd/function.h>

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
#include "backends/autograd/detached_results.h"
#include "backends/autograd/gradient_targets.h"
#include "backends/autograd/saved_tensors.h"
#include "backends/autograd/seen_writes.h"
#include "backends/runtime/autograd_node.h"

namespace framefuse {

class CompiledBackward;
class OutputGate;

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
    std::string handed;                        // gradients that leaves have got before (Accumulate)
    std::vector<bool> passed;                  // gates and views that have run, by place
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
  // Else its one node is the grad_fn of the one output.
  bool HasGates() const { return has_gates_; }
  // Whether its nodes compute together.
  bool IsJoint() const { return HasGates() && plan_->is_on_one_device(); }

  // Called once by the forward: `inputs` of the joint graph without tangents, before any is written; then `outputs` of
  // the forward graph with their history set, of which the first `visible_outputs` may be written by the user later.
  // `only`: the one node, if it is an output's grad_fn itself. `seen`: an output of the forward graph as users see it.
  // `make_nodes`: when the versions are noted, and before it is asked where the histories of the inputs lead.
  void SaveInputs(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
                  absl::FunctionRef<void()> make_nodes);
  void SaveOutputs(absl::Span<const at::Tensor> outputs, std::size_t visible_outputs, const torch::autograd::Node* only,
                   absl::FunctionRef<at::Tensor(std::int32_t)> seen);
  // At last, of SavedValue::is_copy.
  void SaveCopies(absl::Span<const at::Tensor> inputs, absl::Span<const at::Tensor> outputs,
                  std::size_t visible_outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen);
  SeenWrites& seen_writes() { return seen_writes_; }
  // The history of a view that the graph has written, a result (BackwardPlan::results); it leads to this run, too.
  void SeeView(std::size_t result, const torch::autograd::Edge& edge);

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

  // A node is there from Add to Remove. Gates and views are added in the order in which they are made, which gives
  // their places.
  void Add(CompiledBackward& node);
  void Remove(const CompiledBackward& node);
  std::size_t Add(OutputGate& gate);
  void RemoveGate(std::size_t place);
  // The node of a result that is a view, with its turn (ir::Output::turns). `tangent`: others were computed with it.
  // An edge that leads nowhere: one comes in a turn that is not known.
  void AddView(const torch::autograd::Edge& edge, std::int32_t turn, std::int32_t tangent);
  // Of the pass under way.
  Pass& PassOfNow();
  Waiting WaitingIn(const Pass& pass, CompiledBackward& running);
  // `node` has computed alone in the pass under way. Whether no other is still to do so.
  bool EndsPass(CompiledBackward& node);
  // All nodes compute at once when all gates have run. But if somebody sees that the pass comes to the next gate after
  // the one at `place`, which runs, then what eager does in between is done now: leaves get their gradients, and saved
  // values that are used up or written raise eager's error. `fails`: what the gate brings to others raises, which
  // somebody sees as well.
  void ActBeforeNextSeen(torch::autograd::Node& gate, std::size_t place, bool fails);

 private:
  static constexpr int kNever = -2;
  class SecondPass;
  struct Memory {
    c10::Storage storage;
    std::int64_t offset = 0;
  };
  // For create_graph: an input that no node of eager's has saved, so that nobody minds if it is written.
  struct UnsavedInput {
    at::Tensor memory;
    std::int64_t version = 0;
  };
  // By saved value: an input that the graph writes uncounted, where that is what it held before. Eager's nodes have
  // saved the input, and read what it holds when they run.
  struct WrittenUncounted {
    std::size_t saved = 0;
    UnsavedInput input;
  };
  // As SavedVariable::unpack. If the program has replaced the data of a saved input: what a view of it still has.
  at::Tensor Unpack(std::size_t saved, torch::autograd::Node& node) const;
  // For SavedVariable::unpack. None for an input itself, as eager's nodes give none, if detached_ does not know who
  // asks: detach_() of it is an error.
  AutogradNodePtr NodeFor(std::size_t saved, torch::autograd::Node& node) const;
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
  // The first of these nodes whose saved values an earlier pass has used up; kNoNode: none.
  ir::NodeIndex FirstUsedUp(const std::vector<std::int32_t>& readers);
  // Nodes that ran before a pass failed or came to a place, unless it keeps its graph.
  void UseUp(const std::vector<std::int32_t>& readers, absl::FunctionRef<bool(ir::NodeIndex n)> has_run);
  // What of the pass comes before the node: leaves get their gradients, nodes are used up.
  void ActBefore(ir::NodeIndex node, const BackwardPlan::Variant* variant, const std::vector<std::int32_t>& readers,
                 torch::autograd::variable_list tangents, const BackwardPlan::Key& key, const GradientTargets& targets,
                 std::unique_lock<std::mutex>* lock);
  // Gradients for their leaves now: which have got theirs, one character for each gradient, and what the engine is to
  // bring to where torch.autograd.grad asks. `readers`: of the whole pass, used up as far as it came if a hook fails.
  struct Accumulated {
    std::string handed;
    torch::autograd::variable_list left;
  };
  Accumulated Accumulate(const BackwardPlan::Key& early, const std::vector<std::int32_t>& readers,
                         torch::autograd::variable_list tangents, const GradientTargets& targets,
                         std::unique_lock<std::mutex>* lock);
  // Where somebody may see that a pass comes: a gate, or the node of a view, which is torch's own.
  struct Place {
    torch::autograd::Node* node = nullptr;  // null: it has died
    OutputGate* gate = nullptr;
    std::int32_t turn = -1;
    std::int32_t tangent = -1;   // -1: a view that nothing was computed with
    std::uint32_t input_nr = 0;  // of the node
  };
  class ViewHook;
  // Those that the pass still comes to, the next one first.
  std::vector<Place> PlacesAfter(const Pass& pass, std::size_t place, bool all);
  std::vector<CompiledBackward*> NodesOfPass();
  // The first of the nodes before `turn` that fails, with its error.
  Unpacked FirstFailure(const std::vector<std::int32_t>& readers, std::int64_t turn, torch::autograd::Node& node);
  Unpacked UnpackFor(const BackwardPlan::Variant& variant, const GradientTargets& targets) const;
  // `last`: which of the early ones came last.
  torch::autograd::variable_list Execute(const BackwardPlan::Variant& variant, std::vector<at::Tensor> saved,
                                         torch::autograd::variable_list tangents, const GradientTargets& targets,
                                         absl::Span<const std::size_t> early = {}, std::size_t* last = nullptr) const;
  torch::autograd::variable_list RunDifferentiable(torch::autograd::variable_list tangents,
                                                   const BackwardPlan::Key& key, const GradientTargets& targets,
                                                   Used* used);
  // Whether somebody sees what comes to the gate, or to what was written with its output; `by_code`: a hook.
  bool IsObserved(const Place& place, bool by_code) const;
  at::Tensor PrepareTangent(std::size_t tangent, at::Tensor gradient) const;
  // When a pass from the defined tangents comes to the input of each gradient.
  std::vector<std::int32_t> Turns(const std::string& defined) const;
  std::string CutOfBackward();  // as the gates of this pass have decided

  const std::shared_ptr<const BackwardPlan> plan_;
  const bool has_gates_;
  std::mutex running_;
  SavedTensors saved_;
  std::vector<Memory> memory_;  // by saved value: of SavedValue::reads.view, while that is saved; empty: of none
  std::vector<UnsavedInput> inputs_;
  std::vector<WrittenUncounted> written_uncounted_;
  std::vector<at::Tensor> read_by_data_;                 // of DifferentiablePlans::read_by_data(), as they are
  std::vector<torch::autograd::Edge> edges_of_written_;  // by saved value (SavedValue::of_written), while that is saved
  SeenWrites seen_writes_;
  struct SeenView {
    std::size_t result = 0;
    WeakNode node;
    std::uint32_t input_nr = 0;
  };
  std::vector<SeenView> seen_views_;
  bool has_hidden_view_ = false;
  std::vector<std::int64_t> symbols_;
  DetachedResults detached_;
  std::mutex mutex_;                      // of what follows
  std::vector<int> released_in_;          // by node of the backward graph: the pass in which its saved values went
  std::map<int, std::string> cut_in_;     // by pass: where it is cut (BackwardPlan::Key), '?' where not decided
  std::map<int, Pass> passes_;            // of several nodes
  std::vector<CompiledBackward*> nodes_;  // by place; null: none
  std::vector<Place> places_;             // later made ones last
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_BACKWARD_RUN_H_
