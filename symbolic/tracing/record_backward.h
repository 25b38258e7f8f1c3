// record_backward: one backward pass through the fakes' history, recorded as the backward phase of the graph.
// Invariant: on failure nothing is recorded and the engine keeps nothing of the pass.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_RECORD_BACKWARD_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_RECORD_BACKWARD_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {

struct BackwardPass {
  std::vector<at::Tensor> tangents;          // one for each output
  std::vector<at::Tensor> gradients;         // of the targets
  std::vector<at::Tensor> output_gradients;  // what reaches each output, if there are several
};

// The operator that torch has no derivative for, of the error that says so; empty: it says another thing.
std::string UnderivableIn(std::string_view error);
// Aborted: the history of one of the outputs is used up, or has an operator without a derivative. Another failure is
// the recorder's pending break.
absl::StatusOr<BackwardPass> RecordBackwardPass(Recorder& recorder, const std::vector<at::Tensor>& outputs,
                                                const std::vector<at::Tensor>& targets);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_RECORD_BACKWARD_H_
