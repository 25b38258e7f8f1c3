// Which values a joint graph saves for its backward, and which forward nodes its backward runs again.
// Invariant: every value that a node of the backward uses is a saved value, a tangent, a constant or the result
// of another node of the backward; random nodes and readers of mutated inputs are never run again.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_VALUES_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_VALUES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/autograd/saved_copies.h"
#include "backends/graph/backend.h"
#include "backends/graph/graph.h"

namespace framefuse {

struct SavePlan {
  std::vector<ir::ValueId> saved;  // in order of definition
  std::vector<bool> in_backward;   // by node of the joint graph
};

// `copies`: values of the forward that the backward gets, or nobody (SavedCopy).
absl::StatusOr<SavePlan> ChooseSaved(const ir::Graph& joint, const BackendOptions& options,
                                     absl::Span<const SavedCopy> copies = {});

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_SAVED_VALUES_H_
