// OutputGate: the grad_fn of one output of a run that has several. It hands the output's tangent to the run, so that
// hooks on an output run in those passes only that reach it.
// An output that others were computed with is a place where a pass may be cut: if a hook, retain_grad() or
// torch.autograd.grad asks for the gradient there, the gates of the others bring it their part, and the run starts from
// what has come to the gate in all.
// Invariant: whether a pass is cut at an output is decided once, by the first gate that leads to it.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_OUTPUT_GATE_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_OUTPUT_GATE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/autograd/compiled_backward.h"

namespace framefuse {

class OutputGate final : public torch::autograd::Node {
 public:
  // Edges: the nodes of the inputs that the output reaches, then for each of `places` (indices of output_gradients())
  // the gate of that output.
  OutputGate(std::shared_ptr<BackwardRun> run, std::size_t tangent, std::vector<std::size_t> places,
             torch::autograd::edge_list edges);

  ~OutputGate() override;
  OutputGate(const OutputGate&) = delete;
  OutputGate& operator=(const OutputGate&) = delete;

  std::string name() const override { return run_->plan().NameOf(tangent_); }
  std::size_t tangent() const { return tangent_; }
  // Whether somebody sees what comes to the output, or to any node, in this pass, and whether that is code.
  bool IsObserved() { return IsSeen(*this); }
  static bool IsSeen(torch::autograd::Node& node);
  void release_variables() override;

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  static constexpr int kNoBackward = -2;
  std::size_t nodes() const { return num_outputs() - places_.size(); }
  torch::autograd::Edge EdgeTo(std::size_t place) const { return next_edge(nodes() + place); }
  // A part of what reaches the places, if the pass is cut there.
  void BringToPlaces(const at::Tensor& gradient, torch::autograd::variable_list* result);
  void HandOver(at::Tensor gradient, torch::autograd::variable_list* result);

  std::shared_ptr<BackwardRun> run_;
  std::size_t tangent_;
  std::size_t place_;  // in the run
  std::vector<std::size_t> places_;
  BackwardRun::Used used_;
  int used_in_ = kNoBackward;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_OUTPUT_GATE_H_
