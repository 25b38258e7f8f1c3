// CompiledBackward: the autograd node of one call of a graph's forward; one for each class of inputs that the same
// outputs reach (BackwardPlan::InputClass). So the engine finds the way from an output to the inputs that eager's nodes
// lead to, and no other: no leaf waits for a graph that brings it nothing, and no history is run for nothing.
// Several nodes of one run compute together: the first that runs computes for all that are ready, which are, where one
// thread made what was computed with the outputs, all of the pass. Those that run later take what is theirs.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "backends/autograd/backward_run.h"

namespace framefuse {

class CompiledBackward final : public torch::autograd::Node {
 public:
  // For the inputs of the plan's class `place`; edge i leads to that of its gradient i, input i is of its tangent i.
  CompiledBackward(std::shared_ptr<BackwardRun> run, std::size_t place, torch::autograd::edge_list edges);
  ~CompiledBackward() override;
  CompiledBackward(const CompiledBackward&) = delete;
  CompiledBackward& operator=(const CompiledBackward&) = delete;

  // The one node is an output's grad_fn, which has eager's name.
  std::string name() const override { return run_->HasGates() ? kRange : run_->plan().NameOf(0); }
  void release_variables() override;
  std::size_t place() const { return place_; }
  // What these nodes of one run are asked for in the pass under way, but for what leaves have got already.
  struct Asked {
    std::string wanted;
    torch::autograd::edge_list edges;
    std::uint64_t first_made = 0;
  };
  // What profiles show around the computation.
  static constexpr const char* kRange = "CompiledFunctionBackward";
  static Asked AskedOf(absl::Span<CompiledBackward* const> nodes, const BackwardRun::Pass& pass);

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  torch::autograd::variable_list ApplyAlone(torch::autograd::variable_list gradients);
  torch::autograd::variable_list ApplyTogether(torch::autograd::variable_list gradients);
  void Compute(BackwardRun::Pass& pass);
  // What is behind does not run in this pass.
  void HoldBack() const;
  const BackwardPlan::InputClass& inputs() const { return run_->plan().input_classes()[place_]; }
  void AddWanted(const std::string& defined, std::string* wanted) const;

  std::shared_ptr<BackwardRun> run_;
  std::size_t place_;
  BackwardRun::Used used_;  // by the last run
  bool computed_ = false;   // in the last run
  bool last_ = true;        // nothing else of the pass needs what is saved
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_COMPILED_BACKWARD_H_
