// ViewRecipe: how an output that is a view of an input (or of another output) is made from the real tensor, by the
// graph's own view nodes run through autograd, so that it has eager's view relation and grad_fn.
// Invariant: taken from the graph as captured, before any pass; Apply runs no kernel and writes nothing.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_OUTPUT_VIEWS_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_OUTPUT_VIEWS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/graph/graph.h"

namespace framefuse {

// Lists of views that one run has made (of unbind, split and the like): outputs that are elements of one list share its
// history, as in eager, and what comes to it in a backward pass is put together once.
class ListsOfViews {
 public:
  // A view that no output has yet; none: the list is still to be made, or was made of what the base was before.
  std::optional<at::Tensor> Take(ir::NodeIndex node, const at::Tensor& base, std::size_t element);
  // The same as part of the way to another view.
  std::optional<at::Tensor> Find(ir::NodeIndex node, const at::Tensor& base, std::size_t element) const;
  void Add(ir::NodeIndex node, const at::Tensor& base, c10::IValue list);

 private:
  struct Made {
    ir::NodeIndex node = ir::kNoNode;
    at::Tensor base;
    std::uint32_t version = 0;
    const torch::autograd::Node* history = nullptr;
    bool with_history = false;
    c10::IValue list;
    std::vector<bool> taken;
  };
  // From the last on: -1 if none was made of the base as it is.
  std::ptrdiff_t IndexOf(ir::NodeIndex node, const at::Tensor& base) const;
  std::vector<Made> made_;
};

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
  // Throws what torch throws. `lists`: of this run; null where nobody sees the view's history.
  at::Tensor Apply(const at::Tensor& base, absl::Span<const std::int64_t> symbols, ListsOfViews* lists = nullptr) const;

 private:
  struct ViewStep {
    ir::OpId op;
    std::vector<ir::Arg> args;
    std::int32_t viewed = 0;  // argument that takes the tensor
    std::int32_t result = 0;  // element of the returned list; the return itself for -1
    ir::NodeIndex node = ir::kNoNode;
  };
  // From the last list on that is made already; the number of steps that are done.
  std::size_t Start(const at::Tensor& base, ListsOfViews* lists, at::Tensor* view) const;
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
