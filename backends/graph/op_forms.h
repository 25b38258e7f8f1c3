// Operators that stand for another one, found by torch's rules for names.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_OP_FORMS_H_
#define FRAMEFUSE_BACKENDS_GRAPH_OP_FORMS_H_

#include "backends/graph/op.h"

namespace framefuse::ir {

// Null: there is none.
// Of an operator on lists: what it does to one element (aten._foreach_add.List: aten.add.Tensor).
OpId ElementForm(OpId op);
// With a number as second operand (aten.add.Tensor: aten.add.Scalar).
OpId NumberForm(OpId op);

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_OP_FORMS_H_
