// close: turns a finished or stopped attempt into the parts of an entry: recipes of what lives on, effects, and
// the tensor graph. Invariant: changes nothing of the attempt but the tracer's graph, which is closed.
#ifndef FRAMEFUSE_SYMBOLIC_RECONSTRUCT_CLOSE_H_
#define FRAMEFUSE_SYMBOLIC_RECONSTRUCT_CLOSE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "symbolic/capture/capture.h"
#include "symbolic/entry/compiled_entry.h"

namespace framefuse {

// A frame of `entry->resume`, for logs.
struct StoppedFrame {
  RefOf<PyCodeObject> code;
  bool calls_module = false;  // torch's own, between the call of a module and its forward()
};

struct Closed {
  std::unique_ptr<CompiledEntry> entry;  // without guards and executable
  tracing::TracedGraph graph;
  std::vector<Ref> fx_outputs;  // fakes, by output index (FX backends)
  std::vector<StoppedFrame> stopped;
};

// After a return: `result` is what the frame returned.
absl::StatusOr<Closed> CloseAtReturn(Capture& capture, BorrowedRef result, SourceId source, bool build_graph);
// At a stop: the chain of activations is alive.
absl::StatusOr<Closed> CloseAtStop(Capture& capture, Activation& innermost, const GraphBreakReason& reason,
                                   bool build_graph);
// What `code` returned cannot be rebuilt: the break is its RETURN instruction's.
BreakRecord BreakAtReturn(Capture& capture, PyCodeObject* code, const absl::Status& status);
// Whether every live value of the chain and every write has a recipe.
bool IsRebuildable(Capture& capture, Activation& innermost);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RECONSTRUCT_CLOSE_H_
