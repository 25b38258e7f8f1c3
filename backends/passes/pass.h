// Passes: named steps from graph to graph, run as a list. Each is timed, verified after, and dumped (log "aot") when
// it changed something.
// Invariant: a pass keeps the input contract and the meaning; on functional graphs unless its comment says otherwise.
#ifndef FRAMEFUSE_BACKENDS_PASSES_PASS_H_
#define FRAMEFUSE_BACKENDS_PASSES_PASS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/graph/backend.h"
#include "backends/graph/graph.h"

namespace framefuse {

struct Pass {
  const char* name;
  absl::StatusOr<bool> (*run)(ir::Graph& graph);  // whether it changed something
  bool lays_out = false;  // from here on the graph says how results are laid out, not how ATen would
};

// ir::VerifyMetadata where config().verify_metadata asks for it.
absl::Status VerifyMetadataInTests(const ir::Graph& graph, bool strides_too = true);

absl::Status RunPasses(ir::Graph& graph, absl::Span<const Pass> passes, std::vector<PhaseTime>* times);

// Recorded → functional: in-place nodes become values, mutated inputs get outputs with their new values.
// Unimplemented, the graph unchanged, where an operator has no functional form.
absl::StatusOr<bool> Functionalize(ir::Graph& graph);
// Drops nodes that nothing needs; recorded graphs too (writes to what is still read stay).
absl::StatusOr<bool> EliminateDeadCode(ir::Graph& graph);
// Equal nodes on equal arguments become one, unless their results reach the user.
absl::StatusOr<bool> MergeCommonSubexpressions(ir::Graph& graph);
// Small tensors computed from constants only become constants.
absl::StatusOr<bool> FoldConstants(ir::Graph& graph);
// Copies, casts and views that change nothing.
absl::StatusOr<bool> RemoveNoOps(ir::Graph& graph);
// Chains of views: view of view, permutations that cancel.
absl::StatusOr<bool> SimplifyViews(ir::Graph& graph);

// What every backend runs on a captured graph.
absl::Span<const Pass> StandardPasses();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_PASSES_PASS_H_
