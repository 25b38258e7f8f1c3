// FunctionalForm: for an operator that writes arguments, the one that returns the new values instead.
// Invariant: the form's arguments are the writing operator's, in the same order (less those of an `out` form that are
// only written); its returns are the writing operator's own (not aliased) returns and then one for each written
// argument, in order.
#ifndef FRAMEFUSE_BACKENDS_PASSES_FUNCTIONAL_FORMS_H_
#define FRAMEFUSE_BACKENDS_PASSES_FUNCTIONAL_FORMS_H_

#include "backends/graph/graph.h"

namespace framefuse {

struct FunctionalForm {
  ir::OpId op = nullptr;
  std::vector<std::int32_t> written;  // arguments written, in order
  std::size_t own_returns = 0;        // returns of the writing operator that are not written arguments
  bool is_out = false;                // torch.div(a, b, out=c): the form has no arguments for what is written
};

// op is null if there is none.
FunctionalForm FunctionalFormOf(const ir::Op& op);

// The dtype that a pointwise operator computes on these arguments by torch's promotion rules.
c10::ScalarType PromotedType(const ir::Graph& graph, const ir::Node& node);
// Comparisons and logical operators: their functional forms return bool.
bool ReturnsBool(const ir::Op& op);
// The type that the form of `recorded`, which writes one tensor, computes in; Undefined: that of the tensor.
c10::ScalarType ComputedType(const ir::Graph& graph, const ir::Node& recorded, const ir::Node& form);
// The same of one element of a form that writes a list.
c10::ScalarType ComputedTypeInList(const ir::Graph& graph, const ir::Node& form, std::size_t element);

// What the form returns has the dtype and strides of the `out` argument of `recorded`, the last: all are floating,
// alike and row by row.
bool MakesWhatIsThere(ir::Graph& graph, const ir::Node& recorded, ir::OpId form);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_FUNCTIONAL_FORMS_H_
