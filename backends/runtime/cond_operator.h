// framefuse::cond: a conditional on a tensor's value as one operator. Its branches are graphs in text form, its
// backward is the same operator on the branches' gradient graphs.
// Invariant: a branch is a recorded graph without gradients that writes nothing from outside and whose results share
// no memory with its operands or one another; both branches give results of the same metadata.
// Compiled branches are kept by text and backend for the process; safe to call from any thread.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_COND_OPERATOR_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_COND_OPERATOR_H_

#include <string>

#include "absl/status/status.h"
#include "backends/graph/graph.h"

namespace framefuse {

// Once a process, before the first capture.
void RegisterCondOperator();
// Compiles the branches of the graph's conditionals now. `backend`: the one that runs them; empty: as the nodes say.
absl::Status PrepareConds(ir::Graph& graph, const std::string& backend = {});

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_COND_OPERATOR_H_
