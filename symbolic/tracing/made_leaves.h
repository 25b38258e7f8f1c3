// made_leaves: leaves that a recording has made and that require grad (a copied module's parameters). A graph brings
// gradients to its inputs alone. So where a leaf is handed out, or a result's history leads to it, the graph ends
// before the call that makes the leaf: that call is Python's, and the next graph has the leaf among its inputs.
// Invariant: a leaf that nobody outside can reach a gradient of stays in the graph.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_MADE_LEAVES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_MADE_LEAVES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

// Makes it the recording's pending break, with the node that makes the first of the leaves.
absl::Status RefuseMadeLeaves(Recorder& recorder, absl::Span<const at::Tensor> leaves, const std::string& explanation);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_MADE_LEAVES_H_
