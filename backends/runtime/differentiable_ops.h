// differentiable_ops: a joint graph whose gradients have derivatives in turn (create_graph). While histories are kept
// torch computes some derivatives by other formulas than those that were recorded: silu's backward by operators with
// derivatives, that of solve() without the factors that it has none for. Nodes that must not be differentiated as they
// stand get operators of framefuse's own instead, made of ones with derivatives, or are written without what gradients
// do not depend on. Invariant: values are what they were.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_DIFFERENTIABLE_OPS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_DIFFERENTIABLE_OPS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

void MakeDifferentiable(ir::Graph& joint);

// (value, of): the elements of the first with the history of the second, which has its sizes.
ir::OpId KeepsHistory();

// (made, elements, of): the first with the other's elements, for the nodes that have saved it as their result, too.
// Undefined elements: as it is, an unknown value if it is computed from one. `of`: what it was computed from, whose
// memory it may have.
ir::OpId GivesElements();

// (made, of): the first, which nobody has saved. While there are UnknownValues, it is one if one of the others is.
ir::OpId NotesUnsaved();

// Values of one differentiable run that are computed from what stands for inputs whose elements are gone, and those
// that were saved and have been written, or used up, since.
class UnknownValues {
 public:
  explicit UnknownValues(absl::Span<const at::Tensor> inputs);
  ~UnknownValues();
  UnknownValues(const UnknownValues&) = delete;
  UnknownValues& operator=(const UnknownValues&) = delete;

  void AddIfOf(const at::Tensor& made, absl::Span<const at::Tensor> of);
  void Add(const at::Tensor& made) { values_.push_back(made); }
  // When all has run: a node that has saved one raises torch's error if a pass comes to it.
  void Spoil() const;

 private:
  std::vector<at::Tensor> values_;
  UnknownValues* const outer_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_DIFFERENTIABLE_OPS_H_
