// DifferentiablePlans: a backward through autograd itself, for create_graph. The joint graph runs operator by operator
// from the graph's own inputs; values that no differentiable input reaches are taken as they were saved, and others get
// the elements that were saved of them (saved_elements.h). A plan is made when it is first asked for. Invariant:
// thread-safe; the BackwardPlan that owns it outlives it.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_DIFFERENTIABLE_PLANS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_DIFFERENTIABLE_PLANS_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/autograd/backward_plan.h"
#include "backends/autograd/saved_copies.h"

namespace framefuse {

// A second derivative comes to the nodes of `results` where the forward is computed from them as they were handed out.
struct DifferentiablePlan {
  std::unique_ptr<Executable> executable;
  std::vector<std::int32_t> inputs;                // used inputs: of the joint graph, tangents included
  std::vector<std::int32_t> saved;                 // used saved values, after the inputs
  std::vector<std::int32_t> elements;              // saved values whose elements are used, after these
  std::vector<std::size_t> results;                // used results (BackwardPlan::results), after these
  std::unique_ptr<DifferentiablePlan> of_results;  // computes their values; null: there are none
  std::vector<std::int32_t> gradients;             // gradient of each output
  // Of each output behind these what an input held, and is to hold at last: its place in
  // DifferentiablePlans::read_by_data.
  std::vector<std::size_t> read_by_data;
};

class DifferentiablePlans {
 public:
  explicit DifferentiablePlans(const BackwardPlan& plan);

  // Inputs of the joint graph that only these plans need.
  const std::vector<std::int32_t>& inputs() const { return inputs_; }
  // Inputs that the graph writes behind nodes that have read them by `x.data`: eager's have saved the memory.
  const std::vector<std::int32_t>& read_by_data() const { return read_by_data_; }
  // Of a saved value that an input held before an uncounted write: eager's nodes do not ask for the input's version.
  bool AsksNoVersion(std::size_t saved) const { return asks_no_version_[saved]; }
  // Results that the graph has saved and that one of these nodes of the backward reads: one character for each result.
  // A second derivative comes to their nodes, as in eager, and needs no input that they were computed from. Where it
  // has a torch.autograd.Function it comes to all: what a forward of that did has another derivative.
  std::string ResultsPassed(const std::vector<std::int32_t>& readers) const;
  struct Wish {
    std::string through;     // so too, '1' if a second derivative is to come to its result's node
    bool watch = false;      // as GiveElements()
    std::string detached{};  // saved values that have no history any more where Functions read them; empty: none
  };
  absl::StatusOr<const DifferentiablePlan*> Find(const BackwardPlan::Key& key, const Wish& wish) const;

 private:
  void FindInputs();
  // What input `i` held before the graph wrote it.
  std::vector<ir::ValueId> HeldBefore(std::int32_t i) const;
  void FindReadByData();
  // What was read of `x.data`, or of what is `constant` (by value), is what was saved of it. Returns copies of
  // what inputs of read_by_data() held.
  std::vector<HeldByInput> ReadCopies(std::vector<bool> constant, ir::Graph* joint) const;
  absl::StatusOr<std::unique_ptr<DifferentiablePlan>> Compile(const BackwardPlan::Key& key, const Wish& wish) const;
  void CutDetached(const std::string& detached, ir::Graph& joint) const;
  // What computes `outputs` from inputs, saved values that are `taken`, elements of others (by saved value),
  // and `results`, which are taken, too.
  absl::StatusOr<std::unique_ptr<DifferentiablePlan>> Differentiate(const ir::Graph& joint,
                                                                    const std::vector<ir::Output>& outputs,
                                                                    const std::vector<bool>& taken,
                                                                    const std::vector<ir::ValueId>& elements,
                                                                    const std::vector<std::size_t>& results,
                                                                    const std::vector<HeldByInput>& by_data) const;
  ir::ValueId ResultOf(std::size_t result, const ir::Graph& joint) const;
  // By saved value: computed by the forward, and one of the nodes reads it, so that it is known to be as it was.
  std::vector<bool> ComputedFor(const std::vector<std::int32_t>& readers) const;

  const BackwardPlan& plan_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> read_by_data_;
  std::vector<bool> asks_no_version_;  // by saved value
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<std::string, std::unique_ptr<DifferentiablePlan>> found_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_DIFFERENTIABLE_PLANS_H_
