// ViewRecipe: how an output that is a view of an input (or of another output) is made from the real tensor, by the
// graph's own view nodes run through autograd, so that it has eager's view relation and grad_fn.
// Invariant: taken from the graph as captured, before any pass; Apply runs no kernel and writes nothing.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_OUTPUT_VIEWS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_OUTPUT_VIEWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

class ViewRecipe {
 public:
  // The view nodes from one of `bases` (values of the same tensor) to `view`, or, where something else lies between,
  // the view's strides and offset.
  static ViewRecipe Create(const ir::Graph& graph, const std::vector<ir::ValueId>& bases, ir::ValueId view);
  // The one of `bases` that it starts from; none where it goes by strides.
  ir::ValueId base() const { return base_; }
  // Whether the view has the history of as_strided: torch then makes it again by the same.
  bool EndsAsStrided() const;
  // Whether Apply may throw where the capture did not: only real memory has bounds.
  bool MayThrow() const;
  // Throws what torch throws.
  at::Tensor Apply(const at::Tensor& base, absl::Span<const std::int64_t> symbols) const;

 private:
  struct ViewStep {
    ir::OpId op;
    std::vector<ir::Arg> args;
    std::int32_t viewed = 0;  // argument that takes the tensor
    std::int32_t result = 0;  // element of the returned list; the return itself for -1
  };
  std::vector<ViewStep> steps_;
  bool by_strides_ = false;
  ir::Dim base_offset_;  // as recorded; an input begins elsewhere in each call
  ir::ValueId base_ = ir::kNoValue;
  ir::Value metadata_;
  ir::ExprTable exprs_;
};

// What torch calls a view's history that it has made again, after a write of its memory by another way than the view.
bool IsNameOfRenewedHistory(const std::string& name);
// Has torch make it again.
void OutdateHistory(const at::Tensor& view);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_OUTPUT_VIEWS_H_
