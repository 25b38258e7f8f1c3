// fx_values: a recorded ATen node as Python has it, so that an FX graph can call its operator.
#ifndef FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_VALUES_H_
#define FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_VALUES_H_

#include "backends/graph/graph.h"
#include "frame_eval/ref.h"

namespace framefuse {

// (name, args, kwargs, results): tensors are tuples of their value's number, absent ones of -1; the results have the
// structure that the operator returns. A symbolic number is ("number", tree), and a node that only makes one an operand
// is ("number", tree, value). Null, without an error: an argument has no form in Python.
Ref PythonFormOf(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EXECUTABLES_FX_VALUES_H_
