// OutputHistory: after a forward run, gives its outputs their grad_fn: one CompiledBackward, or one for each class of
// inputs that the same outputs reach; several outputs have an OutputGate each before those that they reach.
// Views of inputs and of outputs, and inputs that the graph writes, have a history of torch's own; where outputs were
// computed with one of them, their gates lead to it as they do to an output's gate.
// Invariant: a backward pass of some outputs comes to no leaf, and runs no node from before the graph, that only other
// outputs depend on; an undefined gradient would use its saved values up and call its hooks.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_OUTPUT_HISTORY_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_OUTPUT_HISTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "backends/autograd/compiled_backward.h"

namespace framefuse {

class OutputHistory {
 public:
  // An output that an input is written with. `read`: by the backward, as what the input holds then.
  struct Written {
    std::int32_t output = 0;
    bool read = false;
    std::int32_t renewed = -1;  // the input, if what was computed from it leads to its history behind the write
  };
  // A result that is a view, to whose node a second derivative may come: as in BackwardPlan::results.
  struct ViewResult {
    std::size_t result = 0;
    std::int32_t output = 0;
  };

  // A result that is a view, with a node of torch's own, to which a pass comes in its turn (ir::Output::turns).
  struct View {
    std::int32_t output = 0;
    std::int32_t turn = -1;
    std::int32_t of_output = -1;
  };

  // `outputs` of the forward graph get a history: those with tangents, in their order, then those that only say so.
  // The first `visible_outputs` are outputs that users see.
  OutputHistory(std::shared_ptr<const BackwardPlan> plan, std::vector<std::int32_t> outputs,
                std::size_t visible_outputs, std::vector<Written> written, std::vector<View> views,
                std::vector<ViewResult> view_results);

  // `seen`: the tensor that users see for an output, if that is a view or a written input; it has a history when the
  // outputs that it is made of have theirs. `write_rest`: writes the inputs that are still to be written; called once
  // all outputs have their histories.
  void Record(absl::Span<const at::Tensor> inputs, absl::Span<const std::int64_t> symbols,
              absl::Span<at::Tensor> outputs, absl::FunctionRef<at::Tensor(std::int32_t output)> seen,
              absl::FunctionRef<void()> write_rest) const;

 private:
  struct Gate {
    std::size_t output = 0;              // position in outputs_
    std::vector<std::size_t> places;     // outputs that it was computed with, as in output_gradients()
    bool leads_to_what_is_seen = false;  // others were computed with it, and users see another tensor for it
    bool is_view_in_turn = false;
  };

  // One that is made before a gate, and after that of what it is a view of.
  struct PlacedView {
    View view;
    std::size_t gate = 0;
  };

  void OrderGates();
  void PlaceViews(std::vector<View> views);
  static void MakeView(const View& view, std::int32_t tangent, BackwardRun& run,
                       absl::FunctionRef<at::Tensor(std::int32_t)> seen);
  void SeeViews(BackwardRun& run, absl::FunctionRef<at::Tensor(std::int32_t)> seen) const;
  std::int32_t TurnOf(std::size_t output) const;  // as in ir::Output::turns
  std::vector<std::size_t> CutPointsAfter(std::size_t output) const;
  torch::autograd::edge_list EdgesTo(const BackwardPlan::InputClass& inputs, absl::Span<const at::Tensor> given) const;
  // For each output the edges to the nodes of the inputs that it reaches.
  std::vector<torch::autograd::edge_list> MakeNodes(absl::Span<const at::Tensor> inputs,
                                                    absl::Span<const at::Tensor> outputs,
                                                    const std::shared_ptr<BackwardRun>& run) const;
  void MakeGates(std::vector<torch::autograd::edge_list> nodes, const std::shared_ptr<BackwardRun>& run,
                 absl::Span<at::Tensor> outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen) const;
  void RenewViews(absl::Span<const at::Tensor> inputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen) const;
  void WatchWritten(absl::Span<at::Tensor> outputs, absl::FunctionRef<at::Tensor(std::int32_t)> seen,
                    absl::FunctionRef<void()> write_rest) const;
  // By where they lie: elements of BackwardPlan::saved() that a pass reads and no input has.
  using SavedByMemory = absl::flat_hash_map<const void*, absl::InlinedVector<std::size_t, 1>>;
  // What is saved of `written`, with which the input was written, is the input's memory from now on.
  void TakeMemoryOf(const at::Tensor& input, const at::Tensor& written, std::int32_t output,
                    absl::Span<at::Tensor> outputs, SavedByMemory* by_memory) const;
  // Of the joint graph; null: one without a tangent.
  const ir::Output* OutputOf(std::size_t output) const;
  // Whether an input is written with it.
  bool IsWritten(std::size_t output) const;
  // Whether users see another tensor for this output than the graph's.
  bool IsSeenOtherwise(std::size_t output) const;
  bool IsOfView(std::size_t output) const { return output < plan_->tangents().size() && plan_->IsOfView(output); }

  std::shared_ptr<const BackwardPlan> plan_;
  std::vector<std::int32_t> outputs_;
  std::size_t visible_outputs_;
  std::vector<Written> written_;
  std::vector<std::int32_t> inputs_;  // of each gradient
  std::vector<Gate> gates_;           // in the order in which they are made
  std::vector<PlacedView> views_;     // likewise
  std::vector<ViewResult> view_results_;
  std::vector<bool> reached_;  // by gradient: by any output
};

// For an output whose history a backward pass inside the graph has used up, or whose operator has no derivative: a
// backward pass raises what eager raises.
struct SpentFunction {
  std::string name;         // as ir::Output::grad_fn
  std::string underivable;  // the operator, if it is one without a derivative
};
void SetSpentHistory(at::Tensor& t, absl::Span<const at::Tensor> inputs, const SpentFunction& function);
// For a view and its base, which were made without histories.
void SetSpentHistoryOfView(at::Tensor& view, absl::Span<const at::Tensor> inputs, const SpentFunction& function);
// The tensor as inference mode makes it, in the same memory or in its own.
at::Tensor MadeInInferenceMode(const at::Tensor& t, bool in_own_memory);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_OUTPUT_HISTORY_H_
